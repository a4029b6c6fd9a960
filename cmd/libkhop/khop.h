/*
 * khop.h: khop inside a process of another language. Linux, x86-64 and arm64.
 *
 * The library is cmd/khop, built by tools/libkhop.sh as a shared object (Go's buildmode c-shared). It starts Go's
 * runtime, with threads of its own, when it is loaded, and cannot be unloaded.
 *
 * Calling. Every function may be called from any thread, at any time, and returns a code: KHOP_OK, or why not. What a
 * function gives back it writes through pointers, and only where it returns KHOP_OK. Where it returns another code
 * than KHOP_OK and KHOP_AGAIN it also writes error, which may be NULL. The library keeps no pointer of its caller's
 * beyond a call, and allocates nothing that its caller must free, unless a function's comment says so.
 *
 * Handles. What lives longer than a call has a number, which is never used again: a call with that of something
 * closed is KHOP_CLOSED, not a crash. khop_close ends whatever a handle stands for.
 *
 * Descriptors. The runtime ends the process where no file descriptors are left for it to start with. See that there are
 * 8 before the library is loaded; afterwards functions say which they lack.
 *
 * Forks. Go's runtime has threads, which a fork does not copy. A child that was forked from a process that has loaded
 * the library must not call it, before it has called exec.
 *
 * Signals. Block all signals but SIGURG and those of faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP) in the thread
 * that loads the library, and unblock them afterwards: the runtime's threads keep that mask, so that signals of the
 * process go to its own threads. The library handles faults, SIGPIPE and SIGURG, and hands those that are not Go's to
 * the handlers that were there before it.
 */
#ifndef KHOP_H
#define KHOP_H

#include <stdint.h>

struct ArrowArrayStream; /* of Arrow's C stream interface */

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. It grows whenever a function, a struct or a code changes its meaning. */
#define KHOP_ABI 7

/* Codes. */
#define KHOP_OK 0
#define KHOP_AGAIN 1    /* nothing is there yet */
#define KHOP_ARGUMENT 2 /* an argument that khop does not take, or that is out of range */
#define KHOP_CLOSED 3   /* the handle stands for nothing any more, or for something else */
#define KHOP_FAILED 4   /* it did not work: a file, memory, a batch, ... */
#define KHOP_STATE 5    /* a state of another dataset or of other options */
#define KHOP_BUG 6      /* khop panicked; nothing else is damaged */

/* What went wrong: for people, in UTF-8, with a zero at the end. The caller owns it. */
typedef struct khop_error {
    int32_t code;
    char text[4092];
} khop_error;

typedef uint64_t khop_handle;

/* KHOP_ABI of the library. Compare it before anything else is called. */
int32_t khop_abi(void);

/* The version of khop, with a zero at the end. Valid until the process ends; do not write to it. */
char *khop_version(void);

/* Ends what a handle stands for, and waits until nothing of it runs any more. */
int32_t khop_close(khop_handle handle, khop_error *error);

/*
 * Runs a command of khop to its end in this process: the arguments of a command line (docs/cli.md) without the program,
 * each with a zero at its end. What it says goes to the file descriptors out and err, which stay the caller's; -1 is
 * nowhere. *status is what the program would exit with. It is for what is short: nothing interrupts a command.
 */
int32_t khop_run(char **arguments, int32_t count, int32_t out, int32_t err, int32_t *status, khop_error *error);

/* Is the program khop: does what main's arguments ask for, with the signals, files and exit status of the program, and
 * ends the process. */
int32_t khop_main(int32_t count, char **arguments);

/*
 * Tables of Arrow's C stream interface, as arguments of commands.
 *
 * khop_stream_write begins to write a stream to a new file, which khop convert reads as a table. It takes the stream
 * over, as if that had been moved, also where it fails; *stream ends with khop_close, which completes the file. A
 * stream that was taken before is KHOP_ARGUMENT, and so is one with a column of a type that is not read, by its name.
 */
int32_t khop_stream_write(struct ArrowArrayStream *from, char *path, khop_handle *stream, khop_error *error);

/* Writes the next batch of records, and says how many rows that has: -1 where the stream has ended. Takes some MiB
 * beside the batch. One thread at a time. */
int32_t khop_stream_next(khop_handle stream, int64_t *rows, khop_error *error);

/* Makes a stream of the rows of a node type, or where edges is not 0 of an edge type, of a dataset: by its place in the
 * schema. Nodes have n_id, columns and strings, edges src, dst and columns. Columns of nodes are the dataset's mapped
 * files, which stay open until the stream and its last array are released; the caller releases both. Any thread may
 * read and release. */
int32_t khop_stream_read(char *dataset, int32_t edges, int64_t type, struct ArrowArrayStream *out, khop_error *error);

/*
 * Sparse operations, on the CPU. docs/sparse.md says what they compute, and that no result depends on threads.
 *
 * A matrix has rows (targets), columns (sources) and edges, which may repeat. The caller numbers its edges; arrays of
 * values, one of each head of each edge, follow that order. Operations run one at a time, on threads of the library,
 * the caller's among them: threads is how many, 0 all.
 */

/* A matrix in compressed rows: the edges of row i are indptr[i] .. indptr[i+1]-1, their columns indices[edge]. Elements
 * have 4 or 8 bytes. The library keeps both pointers until the handle is closed: what they lead to must stay, and must
 * not change. order, which is copied, says which of the caller's edges stands at each place; NULL: edge 0, 1, 2, ..
 * KHOP_ARGUMENT where an index is out of range. */
int32_t khop_sparse_rows(int64_t rows, int64_t cols, int64_t edges, void *indptr, int32_t indptr_bytes,
                         void *indices, int32_t index_bytes, void *order, int32_t order_bytes, khop_handle *matrix,
                         khop_error *error);

/* The same of edges in any order, which are copied: edge e leads from column sources[e] to row targets[e]. */
int32_t khop_sparse_edges(int64_t rows, int64_t cols, int64_t edges, void *targets, void *sources,
                          int32_t index_bytes, khop_handle *matrix, khop_error *error);

/* Elements of x. */
#define KHOP_FLOAT32 0
#define KHOP_FLOAT16 1
#define KHOP_BFLOAT16 2
#define KHOP_FLOAT64 3 /* of extremes alone */

/* What becomes of the rows of x that a row of y is made of. */
#define KHOP_SUM 0
#define KHOP_MEAN 1   /* their sum times 1/edges of the row of y */
#define KHOP_SPREAD 2 /* the sum of each times 1/edges of the row of x: the gradient of a mean */

/* y = a x. values may be NULL: 1 everywhere. */
typedef struct khop_product {
    const float *values; /* [edges, heads] */
    const void *x;       /* [columns, width] */
    float *y;            /* [rows, width], written; shares no memory with the others */
    int64_t width;       /* a multiple of heads, which are equal parts of it */
    int64_t heads;       /* 1 or more */
    uint64_t stamp;      /* not 0: values are those of the last call with this matrix and this number */
    int32_t turned;      /* not 0: a is the transpose of the matrix, which is made once */
    int32_t reduce;
    int32_t dtype; /* of x */
    int32_t threads;
    double share;  /* not 0: of some rows of x alone, which have this share of the edges and are scaled such that y is
                      right in the mean. x is float32, there is one head, and reduce is not KHOP_MEAN */
    uint64_t seed; /* of the draws of these rows */
} khop_product;

int32_t khop_sparse_multiply(khop_handle matrix, khop_product *product, khop_error *error);

/* As khop_product, with the greatest or the least of the rows in place of their sum; zeros without edges. */
typedef struct khop_extreme {
    const void *values; /* [edges], or NULL: 1 everywhere */
    const void *x;      /* [columns, width] */
    void *y;            /* [rows, width], written */
    int64_t *places;    /* [rows, width], written: at which place of the rows' edges the first is that has it, -1 for
                           none; NULL: they are not wanted */
    int64_t width;
    int32_t least;
    int32_t dtype; /* of values, x and y: KHOP_FLOAT32 or KHOP_FLOAT64 */
    int32_t threads;
} khop_extreme;

int32_t khop_sparse_extreme(khop_handle matrix, khop_extreme *extreme, khop_error *error);

/* The sum of u over the edges that won a column of an extreme, or over all of a row that is NaN there: each times its
 * value. */
typedef struct khop_winners {
    const void *values; /* those of the extreme */
    const void *x;
    const void *y;
    const void *u; /* [columns, width], or of the transpose [rows, width]; NULL: count the winners */
    void *out;     /* [rows, width], or of the transpose [columns, width]; written, shares no memory with the others */
    int64_t width;
    int32_t turned; /* not 0: over the transpose */
    int32_t dtype;
    int32_t threads;
} khop_winners;

int32_t khop_sparse_winners(khop_handle matrix, khop_winners *winners, khop_error *error);

/* For each edge and head the dot product of that part of row `target` of u and of row `source` of v: the gradient of
 * a product with respect to its values, where u is that of y, and v is x. */
typedef struct khop_sampled {
    const float *u; /* [rows, width] */
    const float *v; /* [columns, width] */
    float *out;     /* [edges, heads], written; shares no memory with the others */
    int64_t width;
    int64_t heads;
    int32_t threads;
} khop_sampled;

int32_t khop_sparse_sample(khop_handle matrix, khop_sampled *sampled, khop_error *error);

/*
 * Sparse operations on a CUDA device, where the library was built for one (make library-cuda). Arrays are in memory
 * that the device addresses, float32; work is put on a stream of the caller's (a CUstream, 0 is the default stream),
 * and the results are there when the stream has passed. The host cannot read the matrix, so it is not checked: indptr
 * must not descend, nor lead beyond the edges; an edge whose column is out of range counts as if it were not there.
 * Results are those of the CPU, to the bit.
 */
#define KHOP_SAMPLE 3           /* dot products at the edges */
#define KHOP_SOFTMAX 4          /* over the edges of each row and head */
#define KHOP_SOFTMAX_BACKWARD 5 /* its gradient */

typedef struct khop_placed {
    const void *indptr;  /* [rows + 1] */
    const void *indices; /* [edges] */
    const float *values; /* [heads, edges]: of a product, or NULL; scores of a softmax; in the gradient its result */
    const float *x;      /* [columns, width], of products and dot products */
    const float *u;      /* [rows, width], of dot products; [heads, edges], the gradient with respect to the result */
    float *out;          /* [rows, width] of a product, else [heads, edges]; written for the edges of rows alone */
    uint64_t stream;
    int64_t rows, cols, edges, width, heads;
    int32_t device, indptr_bytes, index_bytes;
    int32_t operation; /* KHOP_SUM, KHOP_MEAN or one of the above */
} khop_placed;

int32_t khop_sparse_placed(khop_placed *operation, khop_error *error);

/* Loads the kernels on a device, which else the first operation does. KHOP_FAILED says why there are none. */
int32_t khop_sparse_device(int32_t device, khop_error *error);

/* How many operations were computed since the library was loaded. */
int32_t khop_sparse_operations(int64_t *count, khop_error *error);

/*
 * Graphs in memory, for loaders and samplers of this process.
 */

/* Numbers in rows: row-major, in the machine's byte order. */
typedef struct khop_array {
    char *name;     /* of the file without .npy that khop convert reads: "edges/author__writes__paper/src" */
    char *dtype;    /* as in NumPy, without a byte order: "f4" */
    int64_t *shape; /* [rank] */
    int64_t rank;   /* 1 or more */
    void *data;
} khop_array;

/* Makes a dataset of arrays, as khop convert makes one of a folder of them (docs/convert.md), but in memory: with the
 * same id, and the same batches. The arrays are copied. KHOP_FAILED where khop convert fails, and where it has
 * something to note beside parallel edges and names that batches have: call it then, for what it says. *graph lasts
 * until khop_close, and longer in loaders that were opened with it before. */
int32_t khop_graph_open(khop_array *arrays, int64_t count, khop_handle *graph, khop_error *error);

/*
 * Loaders. A loader makes batches in threads of this process, and one consumer takes them: in the messages of
 * docs/feed.md, as if it were connected to a server, but messages pass through memory, a khop_feed, and a SEGMENT has
 * flag bit 1 (within this process) and comes without a file descriptor or a handle of CUDA's: khop_loader_segment says
 * where it is.
 */

/* Bytes of the longest message. */
#define KHOP_MESSAGE 65536

/* What a loader and its consumer say to each other. Its functions do not enter Go's runtime: they take well below a
 * microsecond, wait for nothing but a system call that wakes a thread, and may be called with locks held. */
typedef struct khop_feed khop_feed;

/* NULL where the system has no memory or file descriptors. The caller frees it, when it calls no function with it any
 * more: also before its loader is closed, which keeps it. */
khop_feed *khop_feed_new(void);
void khop_feed_free(khop_feed *feed);

/* A file descriptor that becomes readable when a call that found nothing is worth repeating: poll it, do not read it.
 * It is closed with the feed. */
int32_t khop_feed_bell(khop_feed *feed);

/* Hands a message of the consumer over. KHOP_AGAIN where there is no room, until the loader has read others. Nothing
 * that comes after the end of the loader is read. */
int32_t khop_feed_put(khop_feed *feed, const void *message, uint32_t size);

/*
 * Copies the message at a place, 0 for the first, to room, which has KHOP_MESSAGE bytes. Returns its length, and at
 * *next the place of the message after it; 0 where it is not there yet, -1 where it will not come, -2 for an invalid
 * place. To ask for a message gives up those before it: who asks for the same again gets the same. One thread at a
 * time.
 *
 * Where a BATCH says that it is, it stays the consumer's until it returns the slot, or until it gives back the segment
 * after khop_close.
 */
int32_t khop_feed_take(khop_feed *feed, uint64_t at, void *room, uint64_t *next);

/*
 * Arrays of a batch in other forms. These functions do not enter Go's runtime either, and keep nothing.
 *
 * khop_ends_*: the sources and targets of a block's edges, of which indptr has destinations + 1 entries and indices
 * edges. KHOP_ARGUMENT where indptr does not ascend to this number of edges; then sources and targets are undefined.
 */
int32_t khop_ends_32(const int32_t *indptr, const int32_t *indices, int64_t destinations, int64_t edges,
                     int32_t *sources, int32_t *targets);
int32_t khop_ends_32_64(const int32_t *indptr, const int32_t *indices, int64_t destinations, int64_t edges,
                        int64_t *sources, int64_t *targets);
int32_t khop_ends_64(const int64_t *indptr, const int64_t *indices, int64_t destinations, int64_t edges,
                     int64_t *sources, int64_t *targets);

/*
 * Year, month (from 0), day (from 0), weekday (0 is Monday), hour, minute and second of times in seconds since 1970,
 * UTC: rows of this number of columns, seven numbers each. The rows in out are step numbers apart. All are -1 for
 * INT64_MIN.
 */
void khop_calendar(const int64_t *seconds, int64_t rows, int64_t columns, int64_t *out, int64_t step);

/*
 * Begins to open a loader. config is an object of JSON with a zero at its end (docs/json.md, "A configuration", has
 * options, arrays and errors): the dataset, and options of "khop serve" but those about who connects. File
 * descriptors in it are of this process, and stay open until the loader is. With world_size the loader's share of the
 * batches is that of rank; it has all workers and all memory that config names. Where quiet is not 0, what khop has to
 * say beside errors goes nowhere, else to stderr. feed is new, and of no other loader. graph is of khop_graph_open, in
 * place of the dataset of config; 0: there is none.
 *
 * *loader is closed by the caller, which also ends one that is still being opened.
 */
int32_t khop_loader_open(char *config, khop_handle graph, int32_t quiet, khop_feed *feed, khop_handle *loader,
                         khop_error *error);

/* KHOP_OK when the loader is open, KHOP_AGAIN before, and what was wrong where it could not be opened: then error->text
 * is an object of JSON. The feed's bell says when to ask again. */
int32_t khop_loader_ready(khop_handle loader, khop_error *error);

/*
 * Says where a segment is that was announced: at *address, *size bytes, on the device that its SEGMENT names where that
 * says so. It stays there until *segment is closed, even if the loader is closed before: the caller closes it when it
 * has given up the last batch in it.
 */
int32_t khop_loader_segment(khop_handle loader, uint32_t number, khop_handle *segment, uint64_t *address,
                            uint64_t *size, khop_error *error);

/*
 * Samplers. A sampler answers single requests: each a batch of the seeds that it brings, made in the thread of its
 * caller. Any number of threads may ask at a time.
 */

/* Begins to open a sampler. config and graph are those of a loader, without seeds: batch_size is the most of a request,
 * workers how many are answered at a time, and workers + prefetch + hold how many answers there may be, in the making
 * or held. No memory is taken beyond theirs. The caller closes *sampler. */
int32_t khop_sampler_open(char *config, khop_handle graph, int32_t quiet, khop_handle *sampler,
                          khop_error *error);

/* KHOP_OK when the sampler is open, KHOP_AGAIN where it is not after this number of milliseconds, and an error where it
 * could not be opened: then error->text is an object of JSON. */
int32_t khop_sampler_ready(khop_handle sampler, int32_t milliseconds, khop_error *error);

/* Says what the sampler is, which arrays its answers have, in order, and what it has done so far: an object of JSON. It
 * is written to room, if its bytes suffice; *size is how many the object has. */
int32_t khop_sampler_about(khop_handle sampler, void *room, uint64_t bytes, uint64_t *size, khop_error *error);

/* Nodes of one type, by its place in node_types: ids, times, which may be NULL, and beside times first times, which may
 * be NULL. */
typedef struct khop_nodes {
    int64_t *ids;
    int64_t *times;
    int64_t *from;
    int64_t count;
    int64_t node_type;
} khop_nodes;

/* Where an array is, and how many rows it has. Without elements the address means nothing. */
typedef struct khop_rows {
    uint64_t address;
    int64_t rows;
} khop_rows;

/* A request, and room for its answer. epoch and number key the random choices: the answer is batch `number` of that
 * epoch of a loader whose batch has these seeds. */
typedef struct khop_request {
    khop_nodes *nodes; /* [sets], numbered through the sets; all of them have times, or none, and so first times */
    int64_t sets;
    uint64_t epoch;
    uint64_t number;
    khop_rows *rows; /* [arrays], written, in the order of the description */
    int64_t arrays;
    int64_t *numbers; /* [room], written: num_nodes and item/TYPE of the answer lie there, which is the caller's */
    int64_t room;     /* (layers + 1) times node types, and one for each seed */
} khop_request;

/* Answers a request. The arrays are *answer's, until that is closed, and may be written; it outlives the sampler.
 * KHOP_AGAIN where for a moment there are as many answers as there may be: close some, or ask again. */
int32_t khop_sampler_sample(khop_handle sampler, khop_request *request, khop_handle *answer, khop_error *error);

/*
 * Unified tensors. Rows of an array in host memory, which the host and devices gather where it lies. Any number of
 * threads may gather at a time; what the array's pages hold is the caller's, also while it is open.
 */

/* base is an array [rows, row_bytes] of bytes, or a mapped file. The library keeps the pointer until *column is closed:
 * when no gather is under way, on no stream either. KHOP_ARGUMENT for rows without bytes, or of 1 GiB or more. */
int32_t khop_unified_open(void *base, int64_t rows, int64_t row_bytes, khop_handle *column, khop_error *error);

/* The same of a column of a dataset's nodes, which is mapped and may be read at *address until *column is closed.
 * node_type may be empty where there is one. room, of this number of bytes, gets an object of JSON with dtype and
 * shape, and a zero at its end. */
int32_t khop_unified_column(char *dataset, char *node_type, char *name, khop_handle *column, uint64_t *address,
                            void *room, uint64_t bytes, khop_error *error);

/* Copies row ids[i] to row i of out, on the host, in up to this number of threads; ids have 4 or 8 bytes. KHOP_ARGUMENT
 * for one that is not a row, with its place: then the contents of out are undefined. */
int32_t khop_unified_gather(khop_handle column, void *ids, int64_t count, int32_t id_bytes, void *out, int32_t threads,
                            khop_error *error);

/* Puts the same on a stream of a device, a CUstream of its primary context as a number: ids and out are memory that the
 * device addresses. It waits for nothing, but for the first call with a device, which page-locks the array in place (or
 * copies it, where the system does not let it). The library must be built for devices (docs/gpu.md); without one it is
 * KHOP_FAILED. A later call reports an id that is no row, by KHOP_ARGUMENT; its row of out is not written. */
int32_t khop_unified_enqueue(khop_handle column, int32_t device, uint64_t stream, void *ids, int64_t count,
                             int32_t id_bytes, void *out, khop_error *error);

/* Keeps copies of these rows, which ascend, in the device's memory, in place of those that were kept before: gathers of
 * that device read them there. No gather may be under way. */
int32_t khop_unified_hot(khop_handle column, int32_t device, int64_t *rows, int64_t count, khop_error *error);

/* By what the device addresses the array, until the column is closed. */
int32_t khop_unified_address(khop_handle column, int32_t device, uint64_t *address, khop_error *error);

#ifdef __cplusplus
}
#endif

#endif
