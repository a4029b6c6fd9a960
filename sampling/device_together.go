package sampling

import "github.com/khop-gnn/khop/device"

var sharedTogetherKernels device.PerDevice[*togetherKernels]

// deviceTogether deals the picks of another picker out to the edge types: together.cu.
type deviceTogether struct {
	on      *device.Device
	kernels *togetherKernels
	from    deviceTogetherStep // what is the same in every hop
}

// newDeviceTogether makes one for the picks of another.
func newDeviceTogether(n Neighbor, env *DeviceEnv, picks devicePicker) (devicePicker, error) {
	d := &deviceTogether{on: env.Device}
	d.from.sort = bit(n.Replace)
	if c, ok := picks.(*deviceChoose); ok {
		d.from.times, d.from.timeBytes, d.from.timed, d.from.chain = c.step.times, c.step.timeBytes, c.step.timed,
			c.step.chain
	}
	var err error
	d.kernels, err = sharedTogetherKernels.Hold(env.Device, loadTogetherKernels)
	return d, err
}

func (d *deviceTogether) close() error { return sharedTogetherKernels.LetGo(d.on) }

func (d *deviceTogether) needs() deviceNeeds { return deviceNeeds{eligible: true} }

func (d *deviceTogether) describe(*deviceSegment, Rand, int, int) {}

func (d *deviceTogether) step(l *deviceLaunch) deviceTogetherStep {
	step := d.from
	step.at = l.step
	return step
}

func (d *deviceTogether) count(l *deviceLaunch) error {
	if err := l.measure(); err != nil { // which clears sums
		return err
	}
	return d.kernels.togetherCount.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.step(l))
}

func (d *deviceTogether) pick(l *deviceLaunch) error {
	return d.kernels.togetherPick.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.step(l))
}
