package sampling

import (
	"context"
	"errors"
	"io"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// deviceOpening is a worker of a device that is being opened: what it holds until it is closed, or the error with which
// that ends. After an error it holds no more.
type deviceOpening struct {
	DeviceEnv
	ctx   context.Context
	owned []io.Closer
	err   error
}

func openOn(env DeviceEnv) *deviceOpening {
	return &deviceOpening{DeviceEnv: env, ctx: context.Background()}
}

// fail ends the opening, if there is an error and it is the first.
func (o *deviceOpening) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// closeFunc is an io.Closer that is a function.
type closeFunc func() error

func (f closeFunc) Close() error { return f() }

// hold returns kernels that the worker holds.
func hold[K io.Closer](o *deviceOpening, shared *device.PerDevice[K], load func(*device.Device) (K, error)) (k K) {
	if o.err != nil {
		return k
	}
	if k, o.err = shared.Hold(o.Device, load); o.err == nil {
		o.owned = append(o.owned, closeFunc(func() error { return shared.LetGo(o.Device) }))
	}
	return k
}

// attach lets the device address an array of the host.
func (o *deviceOpening) attach(array unified.Tensor) device.Address {
	if o.err != nil || len(array.Bytes()) == 0 {
		return 0
	}
	var a *pinned.Attachment
	a, o.err = pinned.Attach(o.ctx, o.Device, array.Bytes(), pinned.AttachOptions{Ledger: o.Scratch.Ledger,
		Purpose: pinned.Scratch})
	if o.err != nil {
		return 0
	}
	o.owned = append(o.owned, a)
	return a.Address()
}

// close closes what is held, and returns the error of the opening with those of closing.
func (o *deviceOpening) close() error {
	errs := []error{o.err}
	for _, c := range o.owned {
		errs = append(errs, c.Close())
	}
	o.owned = nil
	return errors.Join(errs...)
}

// worker returns the worker of a picker, which closes all that the opening holds.
func (o *deviceOpening) worker(p devicePicker, opt deviceOptions) (DeviceWorker, error) {
	w := newDeviceAssembly(o, p, opt)
	if o.err != nil {
		return nil, o.close()
	}
	return w, nil
}

// openDevicePrepared opens a worker of what Prepare makes of a sampler, and closes that with it.
func openDevicePrepared(s Sampler, env DeviceEnv) (DeviceWorker, error) {
	p, err := Prepare(context.Background(), s, env.Env)
	if err != nil {
		return nil, err
	}
	w, err := p.(DeviceSampler).OpenDevice(env)
	if err != nil {
		return nil, errors.Join(err, p.(io.Closer).Close())
	}
	w.(interface{ owns(io.Closer) }).owns(p.(io.Closer))
	return w, nil
}
