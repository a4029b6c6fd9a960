package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/unified"
)

func TestSpoolGivesBackWhatItTook(t *testing.T) {
	for _, memory := range []int64{1, 400, 12 << 20, 0} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			dir := t.TempDir()
			s := &Spool{Dir: dir, Budget: NewBudget(memory)}
			var want []byte
			for i := range 300 {
				p := bytes.Repeat([]byte{byte(i)}, i*i/2)
				if _, err := s.Write(p); err != nil {
					t.Fatal(err)
				}
				want = append(want, p...)
			}
			for range 2 {
				if got, err := s.Bytes(); err != nil || !bytes.Equal(got, want) || s.Len() != int64(len(want)) {
					t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s.Budget.Peak() > memory/4 || s.Budget != nil && s.Budget.Left() != memory {
				t.Errorf("%+v was charged", *s.Budget)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestAFullDiskIsNamed(t *testing.T) {
	s := &Spool{Dir: "/data", size: 12345}
	err := s.explain(&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if !errors.Is(err, formats.ErrSpace) || !strings.Contains(err.Error(), "/data") ||
		!strings.Contains(err.Error(), "12345") {
		t.Errorf("got %v", err)
	}
	if _, err := (&Spool{Dir: "/no/such/folder", Budget: NewBudget(1)}).Write([]byte("ab")); err == nil {
		t.Errorf("a temporary file was made nowhere")
	}
}

func TestWriteRowsClearsEachRow(t *testing.T) {
	const rows, width = 700, 1000 // several batches
	var b bytes.Buffer
	if err := WriteRows(context.Background(), &b, rows, width, func(i int64,
		row []float32) {
		row[i%width] = float32(i)
	}); err != nil {
		t.Fatal(err)
	}
	x, err := unified.New(unified.Float32, bytes.Clone(b.Bytes()), rows, width)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := unified.View[float32](x)
	for i, got := range v {
		if want := float32(i / width); i%width == i/width && got != want || i%width != i/width && got != 0 {
			t.Fatalf("row %d column %d is %v", i/width, i%width, got)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := WriteRows(ctx, &b, rows, width, func(int64, []float32) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestOpenRefusesADirectory(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("got %v", err)
	}
}
