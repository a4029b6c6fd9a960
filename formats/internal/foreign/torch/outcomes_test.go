package torch

import (
	"bytes"
	"os"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestWhatComesOfAnyGraphOfPyTorchGeometric: see sourcetest.Outcomes.
func TestWhatComesOfAnyGraphOfPyTorchGeometric(t *testing.T) {
	var cases []sourcetest.Case
	for _, name := range []string{"collated", "data", "hetero", "hetero-processed", "processed"} {
		c := sourcetest.Case{Name: name, Reader: Reader, At: "g.pt", Pack: sourcetest.Zipped(t, "g.pt"),
			Files: sourcetest.Members(t, "testdata/"+name+".pt")}
		for member := range c.Files {
			if last := member[len(member)-8:]; last != "data.pkl" && last != "yteorder" &&
				member[len(member)-1] != '0' {
				c.Keep = append(c.Keep, member)
			}
		}
		cases = append(cases, c)
	}
	old := expect.Must(os.ReadFile("testdata/old.pt"))(t)
	big := bytes.Replace(old, []byte("little_endianq\x02\x88"), []byte("little_endianq\x02\x89"), 1)
	expect.Ensure(t, !bytes.Equal(big, old), "the file does not say that it is little-endian")
	cases = append(cases, sourcetest.Case{Name: "old and big-endian", Reader: Reader, At: "old.pt",
		Files: map[string]string{"old.pt": string(big)}}.Whole())
	sourcetest.Outcomes(t, append(cases, sourcetest.Case{Name: "old", Reader: Reader, At: "old.pt",
		Files: map[string]string{"old.pt": string(old)}})...)
}

var _ source.Reader = Reader
