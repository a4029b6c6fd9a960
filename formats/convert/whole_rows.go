package convert

// wholeRows takes bytes in pieces of any length, and hands them on in whole rows.
type wholeRows struct {
	row  int64
	rest []byte
	take func(rows []byte) error
}

// Write implements io.Writer.
func (w *wholeRows) Write(p []byte) (int, error) {
	taken, row := len(p), int(w.row)
	if len(w.rest) > 0 {
		more := min(row-len(w.rest), len(p))
		w.rest, p = append(w.rest, p[:more]...), p[more:]
		if len(w.rest) < row {
			return taken, nil
		}
		if err := w.take(w.rest); err != nil {
			return 0, err
		}
		w.rest = w.rest[:0]
	}
	if whole := len(p) / row * row; whole > 0 {
		if err := w.take(p[:whole]); err != nil {
			return 0, err
		}
		p = p[whole:]
	}
	w.rest = append(w.rest, p...)
	return taken, nil
}
