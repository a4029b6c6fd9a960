//go:build linux

package shm

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"
)

// BenchmarkHandOver is what a batch costs that is made already: announced by this process, taken and returned by another.
func BenchmarkHandOver(b *testing.B) {
	s := serve(b, plainGraph(b, 500), Options{Replay: 4})
	c := play(b, "take", s.path, strconv.Itoa(b.N))
	c.wait(b, "begun", 10*time.Second, nil)
	b.ResetTimer()
	c.wait(b, "taken", 10*time.Minute, nil)
}

// playTaker takes a number of batches.
func playTaker(socket, count string) {
	n, err := strconv.Atoi(count)
	if err != nil {
		program{}.Fatal(err)
	}
	c, err := Dial(context.Background(), socket, ConsumerOptions{})
	if err != nil {
		program{}.Fatal(err)
	}
	fmt.Println("begun")
	for taken := 0; taken < n; {
		for _, err := range c.Epoch(context.Background(), 0) {
			if err != nil {
				program{}.Fatal(err)
			}
			if taken++; taken == n {
				break
			}
		}
	}
	fmt.Println("taken")
}
