package job

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"hindcast/internal/job/wire"
)

// checkPlain reports why t cannot be state: state is written to checkpoints and read back by its exported fields.
func checkPlain(t reflect.Type, above []reflect.Type) error {
	if t == timeType {
		return nil
	}
	if slices.Contains(above, t) {
		return fmt.Errorf("%s contains itself", t)
	}
	above = append(slices.Clip(above), t)
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.String:
		return nil
	case reflect.Slice, reflect.Array:
		return checkPlain(t.Elem(), above)
	case reflect.Map:
		switch t.Key().Kind() {
		case reflect.Float32, reflect.Float64: // NaN is not equal to itself: such a map cannot be written down
			return fmt.Errorf("%s has float keys", t)
		case reflect.Struct, reflect.Array, reflect.Interface:
			return fmt.Errorf("%s has %s keys: use strings, integers or booleans", t, t.Key().Kind())
		default:
		}
		return errors.Join(checkPlain(t.Key(), above), checkPlain(t.Elem(), above))
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() {
				return fmt.Errorf("field %s of %s is not exported", f.Name, t)
			}
			if err := checkPlain(f.Type, above); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%s is a %s", t, t.Kind())
	}
}

// refers reports whether a copy of a value of type t, plain or with pointers as columns have, shares memory that can be changed through it.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return true
	case reflect.Array:
		return refers(t.Elem())
	case reflect.Struct:
		if t == timeType {
			return false
		}
		for f := range t.Fields() {
			if refers(f.Type) {
				return true
			}
		}
	default:
	}
	return false
}

// plainEncoder writes plain values; err is the first that could not be written as it is.
type plainEncoder struct {
	w   *wire.Writer
	err error
}

// encode writes a plain value, or a pointer to one as columns have; maps in the order of their keys. Nil and empty stay apart.
func (e *plainEncoder) encode(v reflect.Value) {
	w := e.w
	if v.Type() == timeType {
		t := v.Interface().(time.Time)
		if t.Location() != time.UTC && e.err == nil {
			e.err = fmt.Errorf("state holds a time in zone %s, which a checkpoint would lose: keep times in UTC, as events have them", t.Location())
		}
		w.Int(t.Unix())
		w.Uint(uint64(t.Nanosecond()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		w.Bool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.Int(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.Uint(v.Uint())
	case reflect.Float32, reflect.Float64:
		w.Float(v.Float())
	case reflect.String:
		w.String(v.String())
	case reflect.Pointer:
		w.Bool(!v.IsNil())
		if !v.IsNil() {
			e.encode(v.Elem())
		}
	case reflect.Array:
		for i := range v.Len() {
			e.encode(v.Index(i))
		}
	case reflect.Slice:
		w.Bool(!v.IsNil())
		if v.Type().Elem().Kind() == reflect.Uint8 {
			w.Bytes(v.Bytes())
			return
		}
		w.Uint(uint64(v.Len()))
		for i := range v.Len() {
			e.encode(v.Index(i))
		}
	case reflect.Map:
		w.Bool(!v.IsNil())
		w.Uint(uint64(v.Len()))
		keys := v.MapKeys()
		slices.SortFunc(keys, compareKeys)
		for _, k := range keys {
			e.encode(k)
			e.encode(v.MapIndex(k))
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			e.encode(f)
		}
	default: // refused by checkPlain
	}
}

func compareKeys(a, b reflect.Value) int {
	switch {
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.Kind() == reflect.Bool:
		return bytes.Compare([]byte{boolByte(a.Bool())}, []byte{boolByte(b.Bool())})
	default:
		return cmp.Compare(a.String(), b.String())
	}
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decodePlain sets v, which is settable and zero, to what encodePlain wrote.
func decodePlain(r *wire.Reader, v reflect.Value) {
	if v.Type() == timeType {
		sec, nsec := r.Int(), r.Uint()
		v.Set(reflect.ValueOf(time.Unix(sec, int64(nsec)).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(r.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(r.Float())
	case reflect.String:
		v.SetString(r.String())
	case reflect.Pointer:
		if r.Bool() {
			v.Set(reflect.New(v.Type().Elem()))
			decodePlain(r, v.Elem())
		}
	case reflect.Array:
		for i := range v.Len() {
			decodePlain(r, v.Index(i))
		}
	case reflect.Slice:
		decodeSlice(r, v)
	case reflect.Map:
		present, n := r.Bool(), r.Len()
		if !present {
			return
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), n))
		for range n {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			decodePlain(r, key)
			decodePlain(r, elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			decodePlain(r, f)
		}
	default: // refused by checkPlain
	}
}

func decodeSlice(r *wire.Reader, v reflect.Value) {
	present := r.Bool()
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if b := r.Bytes(); present {
			v.SetBytes(append(make([]byte, 0, len(b)), b...))
		}
		return
	}
	n := r.Uint()
	if !present {
		return
	}
	// Grown step by step, so that a damaged length does not decide how much is allocated; elements may take no byte at all.
	v.Set(reflect.MakeSlice(v.Type(), 0, int(min(n, 1024))))
	for range n {
		if r.Err() != nil {
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		decodePlain(r, elem)
		v.Set(reflect.Append(v, elem))
	}
}
