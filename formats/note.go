package formats

// Note is a sentence that a person should read about a conversion, and what it is about. Change says in which way the
// dataset is not what its source holds: "left out", "guessed", "renumbered", "doubled" or "altered"; of nodes that two
// splits have it is "shared", of all else "said".
type Note struct {
	Change string `json:"change"`
	Name   string `json:"name"`  // of the file, type or column that it is about; "": of the whole source
	Count  int64  `json:"count"` // of the rows, edges, columns or files that it is about
	Text   string `json:"text"`
}

// String returns the sentence.
func (n Note) String() string { return n.Text }
