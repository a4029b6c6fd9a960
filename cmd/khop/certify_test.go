package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// certifying are the commands that read a dataset and write one, or a file of what it holds: those that change DATA,
// and those that write OUT. A command that is new stands here, or in certifyNothing with a reason.
var certifying = map[string][]string{
	"add a column":   {"add", "DATA", "--column", "x=MORE"},
	"add, narrow":    {"add", "DATA", "--feature-dtype", "float16"},
	"split nodes":    {"split", "DATA", "--names", "a,b,c"},
	"split links":    {"split", "DATA", "--links", "--names", "a,b,c"},
	"partition":      {"partition", "DATA", "--parts", "3", "--out", "OUT"},
	"export numpy":   {"export", "DATA", "OUT", "--to", "numpy"},
	"export pyg":     {"export", "DATA", "OUT.pt", "--to", "pyg"},
	"export npz":     {"export", "DATA", "OUT.npz", "--to", "npz"},
	"export parquet": {"export", "DATA", "OUT", "--to", "parquet"},
	"export graphar": {"export", "DATA", "OUT", "--to", "graphar"},
	"export dgl":     {"export", "DATA", "OUT", "--to", "graphbolt"},
	"embed":          {"embed", "DATA", "--checkpoint", "MODEL"},
	"train":          {"train", "DATA", "--epochs", "1", "--hidden", "4", "--checkpoint", "OUT"},
	"embed to file":  {"embed", "DATA", "--checkpoint", "MODEL", "--out", "OUT.npy"},
}

// certifyNothing are the other commands, by why they certify nothing.
var certifyNothing = map[string]string{
	"bench": "reads", "check": "checks", "completion": "no dataset", "convert": "reads sources",
	"demo": "makes its own", "docs": "no dataset", "doctor": "reads", "generate": "no dataset", "info": "reads",
	"options": "no dataset", "plan": "reads", "report": "no dataset", "sample": "reads", "samplers": "no dataset",
	"serve": "reads", "stage": "compares as it copies", "task": "its tests damage what it reads",
	"trace": "no dataset", "tune": "writes times", "version": "no dataset",
}

// TestNoCommandCertifiesDamage flips a bit of each file of a dataset before each command that writes what it has read.
// The command fails and names the file, or it has not read it: then it writes what it writes of the sound dataset, and
// the damaged file is still found.
func TestNoCommandCertifiesDamage(t *testing.T) {
	covered := maps.Clone(certifyNothing)
	for _, args := range certifying {
		covered[args[0]] = ""
	}
	for _, c := range commandNames(t) {
		_, known := covered[c]
		expect.That(t, known, "khop %s is in no list: does it write", c)
	}
	sound, model, more := small(t), filepath.Join(t.TempDir(), "model"), filepath.Join(t.TempDir(), "more.npy")
	must(t, "train", sound, "--epochs", "1", "--hidden", "4", "--checkpoint", model)
	expect.OK(t, os.WriteFile(more, expect.NPY(make([]float32, 2000), 2000), 0o600))
	for name, args := range certifying {
		t.Run(name, func(t *testing.T) {
			run := func(damaged string) (data, errOut string, code int, wrote map[string]string) {
				at := t.TempDir()
				data = filepath.Join(at, "data.khop")
				expect.OK(t, os.CopyFS(data, os.DirFS(sound)))
				if damaged != "" {
					flip(t, filepath.Join(data, damaged), middle, 1)
				}
				out := filepath.Join(at, "out")
				places := strings.NewReplacer("DATA", data, "OUT", out, "MODEL", model, "MORE", more)
				given := strings.Split(places.Replace(strings.Join(args, "\x00")), "\x00")
				_, errOut, code = khop(t, given...)
				return data, errOut, code, contents(t, at, "data.khop")
			}
			_, said, code, want := run("")
			expect.Ensure(t, code == exitDone, "%s", said)
			for _, file := range filesOf(t, sound) {
				data, said, code, wrote := run(file)
				switch {
				case code != exitDone:
					named := strings.Contains(said, filepath.FromSlash(file))
					expect.That(t, named && strings.Contains(said, "khop check"), "%s is damaged: %s", file, said)
				default:
					_, _, code = khop(t, "check", data)
					expect.That(t, code == exitFailed, "%s was damaged, and check finds the dataset sound", file)
					expect.That(t, maps.Equal(wrote, want), "%s was damaged, and what is written differs", file)
				}
			}
		})
	}
}

// commandNames are the commands of the program.
func commandNames(t *testing.T) (names []string) {
	t.Helper()
	var cli commands
	for _, c := range expect.Must(newParser(&cli, nil, nil, nil))(t).Model.Children {
		names = append(names, c.Name)
	}
	return names
}

// filesOf lists the arrays of a dataset.
func filesOf(t *testing.T, data string) (all []string) {
	t.Helper()
	for name := range contents(t, data, "dataset.json") {
		all = append(all, name)
	}
	return all
}

// contents are the files of a folder, but for those below one of a name.
func contents(t *testing.T, dir, but string) map[string]string {
	t.Helper()
	all := map[string]string{}
	expect.OK(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if name == but && d.IsDir() {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() && name != but {
			all[name] = string(expect.Must(os.ReadFile(filepath.Join(dir, name)))(t))
		}
		return err
	}))
	return all
}
