package given

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/khop-gnn/khop/internal/option"
)

var known sync.Map // reflect.Type -> []option.Option

// Of is option.Of, with help in full. Callers do not write to the list.
func Of(v any) []option.Option {
	t := reflect.TypeOf(v)
	if all, ok := known.Load(t); ok {
		return all.([]option.Option)
	}
	all := slices.Clone(option.Of(v))
	for i := range all {
		o := &all[i]
		if key, ok := strings.CutPrefix(o.Help, "..."); ok {
			o.Help = long[cmp.Or(key, o.Name)]
		}
		if strings.HasSuffix(o.Help, ":") {
			o.Help += " " + strings.Join(o.Choices, ", ") + "."
		}
	}
	known.Store(t, all)
	return all
}

// Union returns the options of several structs by name, in the order of the first of each, and completes those that are
// the same as another. Where samplers have different defaults the default is 0, which stands for each one's own.
func Union(lists ...[]option.Option) (all []option.Option) {
	at := map[string]int{}
	for _, o := range slices.Concat(lists...) {
		i, there := at[o.Name]
		switch {
		case !there:
			at[o.Name] = len(all)
			all = append(all, o)
		case all[i].Help == "" && o.Help != "":
			all[i] = complete(o, &all[i])
		case o.Same != "" && o.Default != "" && o.Default != all[i].Default:
			all[i].Default = "0"
		}
	}
	return all
}

// Complete gives options that are the same as another what their tags leave out; all are where the others are declared.
func Complete(options, all []option.Option) []option.Option {
	options = slices.Clone(options)
	for i := range options {
		same := func(o option.Option) bool { return o.Name == options[i].Name && o.Help != "" }
		if j := slices.IndexFunc(all, same); j >= 0 && options[i].Help == "" {
			options[i] = complete(options[i], &all[j])
		}
	}
	return options
}

func complete(o option.Option, from *option.Option) option.Option {
	o.Help, o.Value, o.Short = cmp.Or(o.Help, from.Help), cmp.Or(o.Value, from.Value), from.Short
	if o.Default == "" {
		o.Default, o.Zero, o.Empty = from.Default, from.Zero, from.Empty
	}
	if o.Least == "" && o.Most == "" {
		o.Least, o.Most = from.Least, from.Most
	}
	return o
}
