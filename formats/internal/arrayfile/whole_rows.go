package arrayfile

// WholeRows takes bytes in pieces of any length, and hands them on in whole rows.
type WholeRows struct {
	Row  int64                   // bytes of a row
	Take func(rows []byte) error // at least one; they are the caller's again when it returns
	rest []byte
}

// Write implements io.Writer.
func (w *WholeRows) Write(p []byte) (int, error) {
	taken, row := len(p), int(w.Row)
	if len(w.rest) > 0 {
		more := min(row-len(w.rest), len(p))
		w.rest, p = append(w.rest, p[:more]...), p[more:]
		if len(w.rest) < row {
			return taken, nil
		}
		if err := w.Take(w.rest); err != nil {
			return 0, err
		}
		w.rest = w.rest[:0]
	}
	if whole := len(p) / row * row; whole > 0 {
		if err := w.Take(p[:whole]); err != nil {
			return 0, err
		}
		p = p[whole:]
	}
	w.rest = append(w.rest, p...)
	return taken, nil
}
