//go:build !(amd64 || arm64) || purego

package gather

import "unsafe"

func variants() []variant { return []variant{prefetched, plain} }

func prefetchRows[I rowID](table unsafe.Pointer, ids *I, n, rowBytes, lines int) {}
