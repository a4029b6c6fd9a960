package gpu

import "testing"

func TestRowsTouchTheSectorsAndLinesThatTheyLieIn(t *testing.T) {
	for _, c := range []struct {
		base, width    uint64
		sectors, lines float64
	}{
		{0, 4, 1, 1}, {30, 4, 2, 1}, {126, 4, 2, 2}, {0, 128, 4, 1}, {4, 128, 5, 2}, {0, 132, 5, 2}, {100, 400, 13, 4},
	} {
		if s, l := touched([]int64{0}, c.base, c.width); s != c.sectors || l != c.lines {
			t.Errorf("a row of %d bytes at %d touches %v sectors and %v lines, want %v and %v", c.width, c.base, s, l,
				c.sectors, c.lines)
		}
	}
	if s, l := touched([]int64{0, 1}, 0, 132); s != 5 || l != 2 { // bytes 0 to 131, and 132 to 263
		t.Errorf("two rows touch %v sectors and %v lines in the mean", s, l)
	}
	if got := wireBytes(4, 1); got != 148 {
		t.Errorf("a line costs %v bytes on the bus, not 148", got)
	}
}

func TestSizesAreRead(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "4096": 4096, "3K": 3 << 10, "64G": 64 << 30} {
		var s size
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%s is %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "K", "-1", "1.5G", "1KB", "9999999999G"} {
		var s size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is %d", text, s)
		}
	}
}
