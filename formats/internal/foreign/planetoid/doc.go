// Package planetoid reads citation graphs as Planetoid keeps them: ind.NAME.x, .y, .tx, .ty, .allx, .ally, .graph and
// .test.index (Yang, Cohen and Salakhutdinov, "Revisiting Semi-Supervised Learning with Graph Embeddings", ICML 2016).
//
// # Basics
//
// Nodes are those of allx, then those that test.index names: row i of tx is the node of line i. A node that is neither,
// as 15 of Citeseer's are, has features of 0 and no label (-1). Training nodes are those of x, validation nodes the 500
// behind them, test nodes those of test.index. The lists of neighbours in graph name some neighbours twice, and some
// nodes as their own: each edge is read once, and self-loops are left out, as PyTorch Geometric does.
//
// # Safety
//
// All files but test.index are pickles: they are parsed by package pickle, and never executed.
package planetoid
