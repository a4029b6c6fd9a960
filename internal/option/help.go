package option

// long has the help that is too long for a tag, by the names of options: their tag is help:"...".
var long = map[string]string{
	"cache-dir": "Folder that keeps datasets from elsewhere, for all processes that name it; default: " +
		"KHOP_CACHE_DIR, else the user's folder of caches.",
	"cache-size": "Bytes that --cache-dir may have, such as 500GB; default: KHOP_CACHE_SIZE, else no bound.",
	"fanouts": "Neighbours a hop, the first out of the seeds: 15,10,5. -1 takes all, 0 none. By edge type: " +
		"'cites=15,10;writes=5,5;*=5,5'.",
	"layer-nodes": "Nodes that each hop draws; -1 all. For hgt of each type: 'paper=512,256;*=64,64'.",
	"time":        "Times of the edges, none for none.",
	"node-time":   "Times of nodes: before them none is reached.",
	"time-rules": "Which edges a hop follows: not-after (up to the time of the seed), before, or any; the last rule " +
		"holds for all hops beyond. By edge type: 'cites=before;*=not-after'.",
	"window": "The greatest age of an edge, 0 for any; or one for each hop: 3600,60, of which the last holds for all " +
		"hops beyond. By edge type: 'cites=3600,60;*=0'.",
	"half-life": "Age in which an edge's weight halves; 0: never.",
	"steps":     "Batches of an epoch; 0: enough to draw as many nodes as there are.",
	"coverage":  "Estimate norms from so many nodes for each of the graph; 0: no norms.",
	"partition": "Part of each node, a number a line; without, parts are made.",
	"edge-type": "Edge type that has the neighbours; default: the one that fits.",
	"length":    "Steps of a walk; 0: 40, for saint-walk and pinsage 2.",
	"walks":     "Walks a seed; 0: 1, for pinsage 10.",
	"metapath":  "Edge types to follow, one a step, over and over: writes,rev_writes.",
	"seeds": "A split (train, val, test), all, all:TYPE, or @FILE with a node id a line; edges: all-edges, " +
		"all-edges:TYPE, or edges@FILE with source, target, label and time a line; timed@FILE with a node and its " +
		"time; each:@FILE, each:timed@FILE read the file anew each epoch; default: train, or all nodes where " +
		"there is no such split.",
	"negatives": "Add edges that are not true to seeds that are edges; nodes stand in by which law: none, uniform, " +
		"degree (d^0.75), weight, batch (ends of the batch).",
	"negative-ratio":  "Negatives for each seed that is an edge.",
	"negative-weight": "Weights of --negatives weight: a column of the nodes.",
	"negative-time":   "Only nodes that are there by then: their times.",
	"negative-tries":  "How often a negative is drawn at most.",
	"exclude-seeds": "Edges that a batch leaves out because they are its seeds: none, seeds, or reverse (and their " +
		"reverses).",
	"remainder":    "If batches do not divide by ranks: pad, drop or short.",
	"node-columns": "Columns for all nodes of a batch, default feature; none for none.",
	"seed-columns": "Columns for the seeds of a batch, default label; none for none.",
	"edge-columns": "Columns for the edges of a batch, default none.",
	"prepare":      "Make of each block, with commas: transpose, gcn-norm, loops.",
	"trace":        "Write what workers and loop did when, as a Chrome trace, which Perfetto opens.",
	"max-memory":   "The most memory to take, such as 4GB; mapped files do not count.",
	"residence": "Where the dataset lies while it is read: mapped, resident (a copy in memory), disk (columns are " +
		"read past the page cache, as batches to come need them), auto (disk where memory is too small).",
	"rows-from": "Servers of rows that this machine has not (khop-rows): grpc://HOST:PORT or grpc+tls://.., commas " +
		"between ranges of ids, a bar between replicas.",
	"pack": "Lets --residence disk write rows that batches known ahead need, and the cache has no room for, one " +
		"after another to a temporary file of so many bytes beside the column. Default: none.",
	"device-memory": "The most device memory; default: half of what is free.",
	"device-cache": "How much of it is for graph and columns; the rest is read over the bus. 0: none; default: what " +
		"batches leave.",
	"hot-rows": "Which rows stay in device memory, where a column does not fit: in-degree, pagerank, presample, uses " +
		"(of the epoch before) or none.",
	"host-pages": "On which pages of host memory a device reads columns that do not fit: as the ladder says, or what " +
		"gathers faster when loading begins, a file's own pages or a copy on huge pages (measured).",
	"carry": "Who brings a device the rows that its memory does not have: kernels, which read them over the bus, " +
		"copies by the CPU and a copy engine, which leave the device to others meanwhile, or what proves faster " +
		"(measured).",
	"hot-share": "Where several devices reach each other's memory: keep hot rows on each (none), once among them " +
		"(all), or as copies between them take time (auto).",
	"state":       "Keep the place in a file, and go on from it.",
	"socket":      "Where to make the socket, in a folder of your own.",
	"index-dtype": "Type of ids where a consumer asks for none: auto, int32 or int64.",
	"dedupe":      "Merge edges between the same two nodes:",
	"widen": "Deliver rows that are stored narrow as float32, float16 or bfloat16, or COLUMN=DTYPE those of one " +
		"column.",
	"feature-dtype": "Store rows of features as float16, bfloat16, int8 or int4, or COLUMN=DTYPE those of one column.",
	"directed":      "Store edges as they are listed.",
	"symmetrise":    "Store both directions of every edge, self-loops once.",
}
