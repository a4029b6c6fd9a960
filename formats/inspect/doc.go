// Package inspect finds facts of a dataset that are valid, but may be mistakes: nodes without edges, numbers that are
// not finite, links to predict that are edges of the graph.
//
// # Basics
//
//	found, err := inspect.Dataset(ctx, ds, nil)
//	for _, hint := range found.Hints() { … }
//
// Dataset reads all arrays and counts. Hints says in sentences what a person should look at. Shared alone finds nodes
// that splits have in common. formats.Check finds what is not valid.
//
// # Caveats
//
// Dataset reads mapped files: whoever calls it keeps the dataset open until it returns.
package inspect
