package sampling

import (
	"github.com/khop-gnn/khop/device"
)

var sharedTogetherKernels device.PerDevice[*togetherKernels]

// deviceTogether deals the picks of another picker out to the edge types: together.cu.
type deviceTogether struct {
	kernels *togetherKernels
	from    deviceTogetherStep // what is the same in every hop
}

// newDeviceTogether makes one for the picks of another.
func newDeviceTogether(o *deviceOpening, n Neighbor, picks devicePicker) *deviceTogether {
	d := &deviceTogether{kernels: hold(o, &sharedTogetherKernels, loadTogetherKernels)}
	d.from.sort = bit(n.Replace)
	if c, ok := picks.(*deviceChoose); ok {
		d.from.times, d.from.timeBytes, d.from.timed, d.from.chain = c.step.times, c.step.timeBytes, c.step.timed,
			c.step.chain
	}
	return d
}

func (d *deviceTogether) needs() deviceNeeds { return deviceNeeds{eligible: true} }

func (d *deviceTogether) describe(*deviceSegment, Rand, int, int) {}

func (d *deviceTogether) step(l *deviceLaunch) deviceTogetherStep {
	step := d.from
	step.at = l.step
	return step
}

func (d *deviceTogether) count(l *deviceLaunch) {
	l.measure() // which clears sums
	put(l, d.kernels.togetherCount, 32*l.runs, d.step(l))
}

func (d *deviceTogether) pick(l *deviceLaunch) { put(l, d.kernels.togetherPick, 32*l.runs, d.step(l)) }
