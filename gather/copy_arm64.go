//go:build !purego

package gather

import "unsafe"

// variants returns those that this processor runs, the best first. copy() is as good as vectors by hand on arm64.
func variants() []variant { return []variant{prefetched, plain} }

// prefetchRows prefetches the first lines of n rows and their last. Nothing is read but the ids, n of them, 1 at least.
func prefetchRows[I rowID](table unsafe.Pointer, ids *I, n, rowBytes, lines int) {
	switch p := any(ids).(type) {
	case *int32:
		prefetchRows32(table, p, n, rowBytes, lines)
	case *int64:
		prefetchRows64(table, p, n, rowBytes, lines)
	}
}

//go:noescape
func prefetchRows32(src unsafe.Pointer, ids *int32, n, rowBytes, lines int)

//go:noescape
func prefetchRows64(src unsafe.Pointer, ids *int64, n, rowBytes, lines int)
