//go:build !amd64 || purego

package vector

func keep(bits []byte, stream, limit uint64) { keepPlain(bits, stream, limit) }

func scale(y, x []float32, bits []byte, factor float32) { scalePlain(y, x, bits, factor) }

func add(y, x []float32, factor float32) { addPlain(y, x, factor) }

func relu(x []float32) { reluPlain(x) }

func slope(d, y []float32, factor float32) { slopePlain(d, y, factor) }

func elu(x []float32) { eluPlain(x) }

func eluSlope(d, y []float32, factor float32) { eluSlopePlain(d, y, factor) }

func leaky(d, y []float32, factor float32) { leakyPlain(d, y, factor) }

func softmax(to, from []float32) (greatest, sum float32) { return softmaxPlain(to, from) }

func extreme(y []float32, arg []int32, least bool, r Edges) { extremePlain(y, arg, least, r) }
