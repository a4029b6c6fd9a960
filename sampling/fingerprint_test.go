package sampling

import (
	"fmt"
	"reflect"
	"testing"
)

// changed calls f for each field of a struct, and of those within it, when it has another value. It is set back then.
func changed(t *testing.T, v reflect.Value, name string, f func(name string)) {
	for i := range v.NumField() {
		field, name := v.Field(i), name+"."+v.Type().Field(i).Name
		old := reflect.New(field.Type()).Elem()
		old.Set(field)
		switch field.Kind() {
		case reflect.Struct:
			changed(t, field, name, f)
			continue
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.Int, reflect.Int64:
			field.SetInt(field.Int() + 1)
		case reflect.Uint8:
			field.SetUint(max(field.Uint(), 2) - 1)
		case reflect.Float64:
			field.SetFloat(field.Float() + 0.25)
		case reflect.String:
			field.SetString(field.String() + "x")
		case reflect.Slice:
			more := reflect.New(field.Type().Elem()).Elem()
			switch more.Kind() {
			case reflect.String:
				more.SetString("x")
			case reflect.Int64:
				more.SetInt(5)
			}
			field.Set(reflect.Append(reflect.AppendSlice(reflect.MakeSlice(field.Type(), 0, 9), field), more))
		case reflect.Map:
			list := reflect.MakeSlice(field.Type().Elem(), 2, 2)
			field.Set(reflect.MakeMap(field.Type()))
			field.SetMapIndex(reflect.ValueOf("x"), list)
		case reflect.Pointer:
			if field.Type().Elem().Kind() != reflect.Int64 {
				continue // a partition, which has a name of its own
			}
			at := int64(3)
			field.Set(reflect.ValueOf(&at))
		default:
			t.Fatalf("%s is a %v", name, field.Kind())
		}
		f(name)
		field.Set(old)
	}
}

// A state stands for a sampler by its fingerprint, so every option is in it.
func TestEveryOptionOfASamplerIsInItsFingerprint(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []interface{ Fingerprint() string }{
		Neighbor{Fanouts: []int{3, 2}, Time: Temporal{Edge: "t"}}, Neighbor{Fanouts: []int{3},
			Time: Temporal{Node: "t"}},
		Labor{Fanouts: []int{3}, BatchDependency: 2}, HGT{Nodes: []int{3}}, FastGCN{Nodes: []int{3}},
		Ladies{Nodes: []int{3}}, Shadow{Fanouts: []int{3}}, Cluster{PerBatch: 2}, Full{Work: 1},
		Saint{Kind: SaintWalks, Budget: 4, Length: 3, Steps: 2, Coverage: 5}, Walk{Length: 4, PerSeed: 2},
		Node2Vec{Length: 4, PerSeed: 2, P: 0.5, Q: 2}, PinSage{Neighbors: 5, Hops: 2, Walks: 3, Length: 3},
		PPR{Neighbors: 5, Alpha: 0.5, Epsilon: 0.25}, Negatives{Ratio: 1, Strict: true, Tries: 3},
	} {
		v := reflect.New(reflect.TypeOf(s)).Elem()
		v.Set(reflect.ValueOf(s))
		own := s.Fingerprint()
		if seen[own] {
			t.Errorf("%q is the fingerprint of two", own)
		}
		seen[own] = true
		changed(t, v, fmt.Sprintf("%T", s), func(name string) {
			text := v.Interface().(interface{ Fingerprint() string }).Fingerprint()
			if seen[text] {
				t.Errorf("%s is not in the fingerprint: %q", name, text)
			}
			seen[text] = true
		})
	}
}
