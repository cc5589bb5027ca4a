package peers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
)

// readHindcast reads each column alone, and then all that can be read at once, which must give the same.
func readHindcast(req request) (res result) {
	b, err := os.ReadFile(req.Path)
	if err != nil {
		return result{Err: err.Error()}
	}
	name := filepath.Base(req.Path)
	refuse := func(err error) result {
		text, reason := refusal(err, name)
		return result{Err: text, Reason: reason}
	}
	f, err := parquetfile.Open(bytes.NewReader(b), int64(len(b)), name)
	if err != nil {
		return refuse(err)
	}
	rules := obviousRules(f)
	if f, err = f.WithRules(rules); err != nil {
		return refuse(err)
	}
	res.Rows = f.Rows()
	var whole []string
	for _, name := range f.Columns() {
		col := column{Name: name, digest: newDigest(name, req)}
		err := hindcastColumns(f, rules, []string{name}, []*digest{&col.digest})
		if s, _ := f.Stored(name); err != nil && (s.Annotation == "DECIMAL" || s.Annotation == "INTEGER") {
			// Numbers that 64 bits do not hold are read as text, by another rule.
			rules[name] = parquetfile.Rule{Text: true}
			if f, err = f.WithRules(rules); err != nil {
				return refuse(err)
			}
			col = column{Name: name, Text: true, digest: newDigest(name, req)}
			err = hindcastColumns(f, rules, []string{name}, []*digest{&col.digest})
		}
		if err != nil {
			col.Err, col.Reason = refusal(err, f.Name())
		} else {
			whole = append(whole, name)
		}
		res.Columns = append(res.Columns, col)
	}
	if len(whole) == 0 {
		return res
	}
	var again []*digest
	for _, name := range whole {
		d := newDigest(name, request{})
		again = append(again, &d)
	}
	if err := hindcastColumns(f, rules, whole, again); err != nil {
		return refuse(fmt.Errorf("columns that can be read alone cannot be read together: %w", err))
	}
	for i, name := range whole {
		j := slices.IndexFunc(res.Columns, func(c column) bool { return c.Name == name })
		if !slices.Equal(again[i].Blocks, res.Columns[j].Blocks) {
			return refuse(fmt.Errorf("column %q has other values when it is read with others", name))
		}
	}
	return res
}

// obviousRules declares what a job's author would: that decimals keep their digits, and that clocks were UTC's.
func obviousRules(f *parquetfile.File) map[string]parquetfile.Rule {
	rules := map[string]parquetfile.Rule{}
	for _, name := range f.Columns() {
		s, _ := f.Stored(name)
		switch {
		case s.Annotation == "DECIMAL":
			scale := min(max(s.Scale, 0), parquetfile.MaxScale)
			rules[name] = parquetfile.Rule{Scale: &scale}
		case s.Type == "INT96":
			rules[name] = parquetfile.Rule{INT96: true}
		case s.Local:
			rules[name] = parquetfile.Rule{Zone: time.UTC}
		}
	}
	return rules
}

// refusal is an error's text, and its reason without what differs between files. An error that names no file or no reason, or that
// was a panic, is marked: the test looks for that.
func refusal(err error, file string) (text, reason string) {
	var e *parquetfile.Error
	if !errors.As(err, &e) || e.File != file || e.Reason == "" {
		return err.Error(), badRefusal
	}
	if bytes.Contains([]byte(err.Error()), []byte("panic")) {
		return err.Error(), badRefusal
	}
	reason = e.Reason
	if e.Err != nil {
		reason += ": " + e.Err.Error()
	}
	return err.Error(), reason
}

const badRefusal = "A PANIC, OR NO FILE OR REASON IS NAMED"

func hindcastColumns(f *parquetfile.File, rules map[string]parquetfile.Rule, names []string, out []*digest) error {
	for _, name := range names {
		if _, err := f.Column(name); err != nil {
			return err
		}
	}
	r := f.Read(parquetfile.ReadOptions{Columns: names})
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i, name := range names {
			s, _ := f.Stored(name)
			for row := range b.Len {
				hindcastValue(&b.Columns[i], row, s, rules[name], out[i])
			}
		}
	}
	for _, d := range out {
		d.end()
		if d.Rows != f.Rows() {
			return fmt.Errorf("%d of %d rows came without an error", d.Rows, f.Rows())
		}
	}
	return nil
}

func hindcastValue(c *record.Column, row int, s parquetfile.Stored, rule parquetfile.Rule, d *digest) {
	switch {
	case c.Nulls.Get(row):
		d.null()
	case c.Kind == record.Bool:
		d.boolean(c.Int64s[row] != 0)
	case c.Kind == record.Int64 && rule.Scale != nil:
		d.decimal(unscaled(big.NewInt(c.Int64s[row]), *rule.Scale))
	case c.Kind == record.Int64 && s.Annotation == "TIME":
		d.clock(c.Int64s[row])
	case c.Kind == record.Int64:
		d.int(c.Int64s[row])
	case c.Kind == record.Float64:
		d.float(c.Float64s[row])
	case c.Kind == record.Timestamp:
		d.micros(c.Int64s[row])
	case c.Kind == record.Date:
		d.date(c.Int64s[row])
	case rule.Text && s.Annotation == "DECIMAL":
		d.decimal(trimDecimal(string(c.Strings.At(row))))
	case rule.Text && s.Annotation == "INTEGER":
		d.add("int", c.Strings.At(row))
	case s.Annotation == "INTERVAL":
		intervalBytes(c.Strings.At(row), d)
	default:
		d.bytes(c.Strings.At(row))
	}
}
