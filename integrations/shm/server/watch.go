package server

// WatchProcess calls gone, in a goroutine of its own, when the process pid ends, unless stop is called first; stop
// waits for that goroutine. If the process is not visible, it does nothing.
func WatchProcess(pid int, gone func()) (stop func()) { return watchProcess(pid, gone) }
