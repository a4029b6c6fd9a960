package graphar

import (
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// FuzzRead fuzzes what says where data lies and how much there is: YAMLs, counts, offsets, and ends of edges.
func FuzzRead(f *testing.F) {
	files := small()
	f.Add(shop, users, buys, files["vertex/user/vertex_count"], files[byItem+"edge_count0"],
		files[byItem+"offset/chunk0"], files[byItem+"adj_list/part0/chunk0"])
	f.Add("prefix: .\nvertices: [item.vertex.yml]\nedges: [buys.edge.yml]\n", users, "src_type: item\ndst_type: item\n"+
		"edge_type: e\nprefix: edge/buys\nchunk_size: 9\nsrc_chunk_size: 1\ndst_chunk_size: 1\nadj_lists:\n"+
		"- {ordered: false, aligned_by: src, file_type: csv, prefix: to}\n", "", count(2),
		"_graphArOffset\n0\n", ends+"0,1\n1,1\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, graph, vertex, edge, vertices, edges, offsets, ends string) {
		files := small()
		for name, text := range map[string]string{"shop.graph.yml": graph, "user.vertex.yml": vertex,
			"buys.edge.yml": edge, "vertex/user/vertex_count": vertices, byItem + "edge_count0": edges,
			byItem + "offset/chunk0": offsets, byItem + "adj_list/part0/chunk0": ends} {
			files[name] = text
		}
		at := sourcetest.Folder(t, "shop", files)
		_ = Reader.Find(at.Tree)
		sourcetest.SoundAt(t, Reader, dir, "shop", at.In("shop.graph.yml"))
	})
}
