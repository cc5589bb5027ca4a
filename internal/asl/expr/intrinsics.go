package expr

import (
	"crypto/md5"  // the language has it
	"crypto/sha1" // the language has it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"
)

type intrinsic func(args []any, env *Env) (any, error)

// intrinsics are the functions with their least and most arguments (-1: any number).
var intrinsics = map[string]struct {
	min, max int
	eval     intrinsic
}{
	"States.Array":          {0, -1, func(args []any, _ *Env) (any, error) { return args, nil }},
	"States.ArrayContains":  {2, 2, arrayContains},
	"States.ArrayGetItem":   {2, 2, arrayGetItem},
	"States.ArrayLength":    {1, 1, arrayLength},
	"States.ArrayPartition": {2, 2, arrayPartition},
	"States.ArrayRange":     {3, 3, arrayRange},
	"States.ArrayUnique":    {1, 1, arrayUnique},
	"States.Base64Decode":   {1, 1, base64Decode},
	"States.Base64Encode":   {1, 1, base64Encode},
	"States.Format":         {1, -1, format},
	"States.Hash":           {2, 2, hashOf},
	"States.JsonMerge":      {3, 3, jsonMerge},
	"States.JsonToString":   {1, 1, jsonToString},
	"States.MathAdd":        {2, 2, mathAdd},
	"States.MathRandom":     {2, 3, mathRandom},
	"States.StringSplit":    {2, 2, stringSplit},
	"States.StringToJson":   {1, 1, stringToJSON},
	"States.UUID":           {0, 0, func(_ []any, env *Env) (any, error) { return UUID(env.Random), nil }},
}

// Limits of Step Functions.
const (
	maxRange   = 1000   // elements of ArrayRange
	maxEncoded = 10_000 // characters of Base64Encode, Base64Decode and Hash
)

func wantArray(v any) ([]any, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an array", describe(v))
	}
	return list, nil
}

func wantString(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s is not a string", describe(v))
	}
	return s, nil
}

// wantInt rounds as Step Functions does: half up, also below zero.
func wantInt(v any) (int64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%s is not a number", describe(v))
	}
	if i, ok := Int(n); ok {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil || math.Abs(f) >= 1<<63 {
		return 0, fmt.Errorf("%s is out of range", n)
	}
	return int64(math.Floor(f + 0.5)), nil
}

func describe(v any) string {
	b, err := Encode(v)
	if err != nil {
		return fmt.Sprintf("a %T", v)
	}
	if len(b) > 80 {
		return strings.ToValidUTF8(string(b[:80]), "") + "…"
	}
	return string(b)
}

func arrayContains(args []any, _ *Env) (any, error) {
	list, err := wantArray(args[0])
	if err != nil {
		return nil, err
	}
	return slices.ContainsFunc(list, func(v any) bool { return Equal(v, args[1]) }), nil
}

func arrayGetItem(args []any, _ *Env) (any, error) {
	list, err := wantArray(args[0])
	if err != nil {
		return nil, err
	}
	i, err := wantInt(args[1])
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= int64(len(list)) {
		return nil, fmt.Errorf("index %d is outside an array of %d", i, len(list))
	}
	return list[i], nil
}

func arrayLength(args []any, _ *Env) (any, error) {
	list, err := wantArray(args[0])
	return Number(int64(len(list))), err
}

func arrayPartition(args []any, _ *Env) (any, error) {
	list, err := wantArray(args[0])
	if err != nil {
		return nil, err
	}
	size, err := wantInt(args[1])
	if err != nil {
		return nil, err
	}
	if size < 1 {
		return nil, fmt.Errorf("the chunk size %d is not positive", size)
	}
	out := []any{}
	for chunk := range slices.Chunk(list, int(min(size, int64(len(list))+1))) {
		out = append(out, slices.Clone(chunk))
	}
	return out, nil
}

func arrayRange(args []any, _ *Env) (any, error) {
	var n [3]int64
	for i := range n {
		v, err := wantInt(args[i])
		if err != nil {
			return nil, err
		}
		n[i] = v
	}
	first, last, step := n[0], n[1], n[2]
	if step == 0 {
		return nil, fmt.Errorf("the step is zero")
	}
	out := []any{}
	for i := first; step > 0 && i <= last || step < 0 && i >= last; i += step {
		if len(out) == maxRange {
			return nil, fmt.Errorf("more than %d elements", maxRange)
		}
		out = append(out, Number(i))
		if step > 0 && i > math.MaxInt64-step || step < 0 && i < math.MinInt64-step {
			break
		}
	}
	return out, nil
}

func arrayUnique(args []any, _ *Env) (any, error) {
	list, err := wantArray(args[0])
	if err != nil {
		return nil, err
	}
	out := []any{}
	seen := map[string]bool{} // by a form that is equal for equal values
	for _, v := range list {
		key, err := Encode(canonical(v))
		if err != nil {
			return nil, err
		}
		if !seen[string(key)] {
			seen[string(key)] = true
			out = append(out, v)
		}
	}
	return out, nil
}

// canonical gives equal numbers the same text, and others another one. Beside an integer it is no text of its value, which may have millions of digits, but of
// a mantissa and a binary exponent.
func canonical(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, ok := Int(v); ok {
			return Number(i)
		}
		f := toFloat(v)
		if f.IsInf() {
			return json.Number(fmt.Sprintf("%de1", f.Sign()))
		}
		exp := f.MantExp(f)
		mantissa, _ := f.SetMantExp(f, int(f.Prec())).Int(nil) //nolint:gosec // 256
		return json.Number(fmt.Sprintf("%de%d", mantissa, exp))
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = canonical(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = canonical(v[k])
		}
		return out
	}
	return v
}

func base64Encode(args []any, _ *Env) (any, error) {
	s, err := wantString(args[0])
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(s) > maxEncoded {
		return nil, fmt.Errorf("more than %d characters", maxEncoded)
	}
	return base64.StdEncoding.EncodeToString([]byte(s)), nil
}

func base64Decode(args []any, _ *Env) (any, error) {
	s, err := wantString(args[0])
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(s) > maxEncoded {
		return nil, fmt.Errorf("more than %d characters", maxEncoded)
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("the decoded bytes are not UTF-8")
	}
	return string(b), nil
}

func hashOf(args []any, _ *Env) (any, error) {
	data, ok := args[0].(string)
	if !ok {
		b, err := Encode(args[0])
		if err != nil {
			return nil, err
		}
		data = string(b)
	}
	if utf8.RuneCountInString(data) > maxEncoded {
		return nil, fmt.Errorf("more than %d characters", maxEncoded)
	}
	algorithm, err := wantString(args[1])
	if err != nil {
		return nil, err
	}
	var h hash.Hash
	switch algorithm {
	case "MD5":
		h = md5.New() // asked for by name
	case "SHA-1":
		h = sha1.New() // asked for by name
	case "SHA-256":
		h = sha256.New()
	case "SHA-384":
		h = sha512.New384()
	case "SHA-512":
		h = sha512.New()
	default:
		return nil, fmt.Errorf("there is no algorithm %q: use MD5, SHA-1, SHA-256, SHA-384 or SHA-512", algorithm)
	}
	h.Write([]byte(data))
	return hex.EncodeToString(h.Sum(nil)), nil
}

func jsonMerge(args []any, _ *Env) (any, error) {
	a, okA := args[0].(map[string]any)
	b, okB := args[1].(map[string]any)
	if !okA || !okB {
		return nil, fmt.Errorf("only objects can be merged")
	}
	if deep, ok := args[2].(bool); !ok || deep {
		return nil, fmt.Errorf("the third argument must be false: Step Functions merges shallowly only")
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	maps.Copy(out, b)
	return out, nil
}

func jsonToString(args []any, _ *Env) (any, error) {
	b, err := Encode(args[0])
	return string(b), err
}

func stringToJSON(args []any, _ *Env) (any, error) {
	s, err := wantString(args[0])
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(s) == "" {
		return nil, nil // null is the value of an empty text
	}
	return Decode([]byte(s))
}

func mathAdd(args []any, _ *Env) (any, error) {
	a, err := wantInt(args[0])
	if err != nil {
		return nil, err
	}
	b, err := wantInt(args[1])
	if err != nil {
		return nil, err
	}
	sum := a + b
	if (a > 0) == (b > 0) && (sum > 0) != (a > 0) && a != 0 && b != 0 {
		return nil, fmt.Errorf("%d + %d is out of range", a, b)
	}
	return Number(sum), nil
}

func mathRandom(args []any, env *Env) (any, error) {
	low, err := wantInt(args[0])
	if err != nil {
		return nil, err
	}
	high, err := wantInt(args[1])
	if err != nil {
		return nil, err
	}
	if low >= high || high-low < 0 {
		return nil, fmt.Errorf("the range from %d to %d is empty or too large", low, high)
	}
	var source *rand.Rand
	if len(args) == 3 {
		seed, err := wantInt(args[2])
		if err != nil {
			return nil, err
		}
		source = rand.New(rand.NewPCG(uint64(seed), 0))
	} else {
		source = rand.New(rand.NewPCG(env.Random(), env.Random()))
	}
	return Number(low + source.Int64N(high-low)), nil
}

// stringSplit splits at every character of the delimiter and drops empty parts, as
// recorded of Step Functions.
func stringSplit(args []any, _ *Env) (any, error) {
	s, err := wantString(args[0])
	if err != nil {
		return nil, err
	}
	delimiters, err := wantString(args[1])
	if err != nil {
		return nil, err
	}
	out := []any{}
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune(delimiters, r) }) {
		out = append(out, part)
	}
	return out, nil
}

func format(args []any, _ *Env) (any, error) {
	template, err := wantString(args[0])
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	next := 1
	for i := 0; i < len(template); i++ {
		switch c := template[i]; {
		case c == '\\' && i+1 < len(template) && strings.IndexByte(`'{}\`, template[i+1]) >= 0:
			i++
			b.WriteByte(template[i])
		case c == '{' && i+1 < len(template) && template[i+1] == '}':
			i++
			if next == len(args) {
				return nil, fmt.Errorf("more {} than arguments")
			}
			writeText(&b, args[next])
			next++
		default:
			b.WriteByte(c)
		}
	}
	if next != len(args) {
		return nil, fmt.Errorf("more arguments than {}")
	}
	return b.String(), nil
}

// writeText writes a value as Step Functions formats it: {a=1, b=[x, null]}.
func writeText(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		fmt.Fprint(b, v)
	case json.Number:
		b.WriteString(string(v))
	case string:
		b.WriteString(v)
	case []any:
		b.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writeText(b, element)
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(key + "=")
			writeText(b, v[key])
		}
		b.WriteByte('}')
	}
}

// UUID makes a version 4 UUID of 128 random bits.
func UUID(random func() uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], random())
	binary.BigEndian.PutUint64(b[8:], random())
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
