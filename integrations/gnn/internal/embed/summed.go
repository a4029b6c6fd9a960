package embed

import "fmt"

// summed is the sums of a range: a row for each of its nodes, or for those that have a place.
type summed struct {
	rows  []float32
	width int64
	place []int32 // [node] its row, less than 0 for sums of nothing; nil: all nodes have one, in order
}

// at returns which row has the sums of node i of the range.
func (s *summed) at(i int64) int64 {
	if s.place == nil {
		return i
	}
	return int64(s.place[i])
}

// row returns the sums of node i of the range.
func (s *summed) row(i int64) []float32 { return s.rows[s.at(i)*s.width : (s.at(i)+1)*s.width] }

// sumsRoom returns memory for the sums of relation i for n nodes.
func (r *run) sumsRoom(i int, rel *Relation, n int64) (summed, error) {
	width := int64(rel.Table.Width)
	y, err := room[float32](r, fmt.Sprintf("sums %d", i), n*width)
	return summed{rows: y, width: width}, err
}

// sumsOf returns the sums of relation i for n nodes from one on, a row each.
func (r *run) sumsOf(i int, from summed, first, n int64) ([]float32, error) {
	if from.place == nil {
		return from.rows[first*from.width : (first+n)*from.width], nil
	}
	y, err := room[float32](r, fmt.Sprintf("all sums %d", i), n*from.width)
	if err != nil {
		return nil, err
	}
	clear(y)
	for k := range n {
		if from.place[first+k] >= 0 {
			copy(y[k*from.width:], from.row(first+k))
		}
	}
	return y, nil
}
