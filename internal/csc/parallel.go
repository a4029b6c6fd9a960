package csc

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// Parallel calls f(0) .. f(n-1) concurrently and returns the error of the lowest number that failed, when all have
// ended. A memory fault in one of them panics here, so that a caller who is guarded against faults need not care which
// goroutine reads a mapped file.
func Parallel(n int, f func(w int) error) error {
	if n == 1 {
		return f(0)
	}
	errs, faults := make([]error, n), make([]any, n)
	var wg sync.WaitGroup
	for w := 1; w < n; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() { faults[w] = faultOf(recover()) }()
			debug.SetPanicOnFault(true)
			errs[w] = f(w)
		}()
	}
	func() {
		defer wg.Wait()
		errs[0] = f(0)
	}()
	for _, p := range faults {
		if p != nil {
			panic(p)
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// faultOf returns a panic that is a memory fault, and passes others on.
func faultOf(p any) any {
	if _, fault := p.(interface {
		runtime.Error
		Addr() uintptr
	}); p != nil && !fault {
		panic(p)
	}
	return p
}
