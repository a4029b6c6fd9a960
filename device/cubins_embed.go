//go:build cubins

package device

import "embed"

// "make cubins" writes the folder.
//
//go:embed cubins
var assembled embed.FS

func init() { cubins = assembled }
