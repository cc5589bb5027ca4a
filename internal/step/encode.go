package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"hindcast/internal/plan"
)

// encode writes what json.Marshal makes of p, segment by segment: that of a large topic is hundreds of megabytes,
// of which a buffer that grows would take several times as much.
func (p *Planned) encode(w io.Writer) error {
	if p.Plan == nil {
		return encodeWithout(w, p, "", nil)
	}
	shell, inner := *p, *p.Plan
	shell.Plan, inner.Partitions = &inner, nil
	return encodeWithout(w, &shell, "partitions", func() error {
		return encodeList(w, p.Plan.Partitions, func(tp *plan.Partition) error {
			shell := *tp
			shell.Segments = nil
			return encodeWithout(w, &shell, "segments", func() error {
				return encodeList(w, tp.Segments, func(u *plan.Use) error { return encodeWithout(w, u, "", nil) })
			})
		})
	})
}

// encodeWithout writes v, whose member of that name is null, and has value write it in that place. Without a name it writes v.
func encodeWithout(w io.Writer, v any, name string, value func() error) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if name == "" {
		_, err := w.Write(b)
		return err
	}
	before, after, found := bytes.Cut(b, []byte(`"`+name+`":null`)) // in a string the quotes would be escaped
	if !found || bytes.Contains(after, []byte(`"`+name+`":null`)) {
		return fmt.Errorf("encode %T: not one member %s", v, name)
	}
	if _, err := fmt.Fprintf(w, `%s"%s":`, before, name); err != nil {
		return err
	}
	if err := value(); err != nil {
		return err
	}
	_, err = w.Write(after)
	return err
}

func encodeList[T any](w io.Writer, list []T, one func(*T) error) error {
	if list == nil {
		_, err := io.WriteString(w, "null")
		return err
	}
	for i := range list {
		sep := ","
		if i == 0 {
			sep = "["
		}
		if _, err := io.WriteString(w, sep); err != nil {
			return err
		}
		if err := one(&list[i]); err != nil {
			return err
		}
	}
	end := "]"
	if len(list) == 0 {
		end = "[]"
	}
	_, err := io.WriteString(w, end)
	return err
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// marshal is json.Marshal, in a buffer of the right size for what encodes itself.
func marshal(v any) ([]byte, error) {
	e, ok := v.(interface{ encode(w io.Writer) error })
	if !ok {
		return json.Marshal(v)
	}
	var n counter
	if err := e.encode(&n); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(make([]byte, 0, n))
	err := e.encode(out)
	return out.Bytes(), err
}
