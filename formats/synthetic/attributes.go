package synthetic

import (
	"encoding/binary"
	"math"

	"github.com/khop-gnn/khop/internal/rng"
)

// separation is the distance between the centroids of two classes, in standard deviations of a feature, on average. At
// 3 a node's own features tell its class often but not always, and those of its neighbours help.
const separation = 3

// attributes makes the features and labels of a node type: a centroid for each class, and noise about it that is nearly
// normal.
type attributes struct {
	nodes     *population
	labels    bool
	width     int
	centroids []float32 // [classes, width]
	noise     uint64
}

func newAttributes(key uint64, nodes *population, width, classes int) *attributes {
	a := &attributes{nodes: nodes, width: width, labels: classes > 0, noise: rng.Stream(key, 0)}
	a.centroids = make([]float32, int(nodes.classes)*width)
	if classes > 0 {
		scale := float32(separation / math.Sqrt(2*float64(width)))
		for i := range a.centroids {
			a.centroids[i] = scale * bell(rng.Draw(rng.Stream(key, 1), uint64(i)))
		}
	}
	return a
}

// bell turns a draw into a number of mean 0 and variance 1: the sum of four uniforms of 16 bits, within 3.47 of 0.
func bell(d uint64) float32 {
	sum := d&0xffff + d>>16&0xffff + d>>32&0xffff + d>>48
	return float32(int32(sum)-2*0xffff) * (1 / 37837.227) // sqrt(4·(2^32-1)/12)
}

// fill sets the chunk's bytes to feature rows and its other to labels.
func (a *attributes) fill(c *chunk) {
	for i := range uint64(c.n) {
		id := c.first + i
		_, class := a.nodes.of(id)
		if a.labels {
			c.other = binary.LittleEndian.AppendUint64(c.other, class)
		}
		stream := rng.Stream(a.noise, id)
		for j, centre := range a.centroids[int(class)*a.width : int(class+1)*a.width] {
			// converted, so that it is not fused with bell's product
			x := centre + float32(bell(rng.Draw(stream, uint64(j))))
			c.bytes = binary.LittleEndian.AppendUint32(c.bytes, math.Float32bits(x))
		}
	}
}
