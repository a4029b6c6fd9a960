package loader

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/sampling"
)

// String returns the options as the JSON object that "khop serve --config" reads, with keys in order: the sampler by
// its name, and every option that is not zero. Seeds and Hooks are left out, as is a sampler that khop does not have.
// SlotTimeout, Rank and WorldSize are no options of its: leave them zero for it.
func (o Options) String() string {
	d := option.Document(o, option.Of(o))
	s := unwrapped(o.Sampler)
	if kind := samplers.Of(s); kind != nil {
		d["sampler"] = kind.Name
		maps.Copy(d, option.Document(s, kind.Options()))
	}
	text, err := json.Marshal(d)
	if err != nil { // a number that is none: no loader takes it
		return fmt.Sprintf(`{"error": %q}`, err)
	}
	return string(text)
}

// unwrapped returns the sampler under all that was added to one.
func unwrapped(s sampling.Sampler) sampling.Sampler {
	for w, wraps := s.(sampling.Wrapper); wraps; w, wraps = s.(sampling.Wrapper) {
		s = w.Unwrap()
	}
	return s
}

// ParseOptions is the inverse of String. What the text does not say is the zero value. It returns ErrOptions for a text
// that is none of String, and for a sampler that has more than options: a Cluster with a partition.
func ParseOptions(text string) (o Options, err error) {
	var d map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return Options{}, fmt.Errorf("%w: options are no JSON object: %w", ErrOptions, err)
	}
	if named, ok := d["sampler"]; ok {
		name, _ := option.Say(named).(string)
		kind, err := samplers.Named(name)
		if err != nil {
			return Options{}, fmt.Errorf("%w: sampler: %w", ErrOptions, err)
		}
		delete(d, "sampler")
		if o.Sampler, err = kind.Take(d); err != nil {
			return Options{}, fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	if err := option.SetDocument(&o, option.Of(o), d); err != nil {
		return Options{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return o, nil
}
