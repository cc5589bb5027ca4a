package asl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hindcast/internal/asl/expr"
)

// itemReader is an ItemReader: it reads the items of a distributed Map from objects.
type itemReader struct {
	list       bool // listObjectsV2
	parameters *expr.Template
	inputType  string
	headers    []string // nil: the first row
	delimiter  rune
	maxItems   amount
	pointer    string // ItemsPointer
}

const (
	getObject  = "arn:aws:states:::s3:getObject"
	listObject = "arn:aws:states:::s3:listObjectsV2"
	putObject  = "arn:aws:states:::s3:putObject"
	mostItems  = 100_000_000 // of Step Functions
)

var delimiters = map[string]rune{"COMMA": ',', "PIPE": '|', "SEMICOLON": ';', "SPACE": ' ', "TAB": '\t'}

func loadItemReader(f *fields) *itemReader {
	r, ok := f.object("ItemReader")
	if !ok {
		return nil
	}
	out := &itemReader{}
	resource, _ := r.required("Resource")
	allowed := []string{"Bucket", "Key"}
	switch resource {
	case getObject, "":
	case listObject:
		out.list = true
		allowed = []string{"Bucket", "Prefix"}
	default:
		r.problem("Resource", "%q is not supported: only %s and %s are", resource, getObject, listObject)
	}
	out.parameters = r.template("Parameters")
	checkParameters(r, out.parameters, allowed, allowed[:len(allowed)-btoi(out.list)])
	config, ok := r.object("ReaderConfig")
	if ok {
		out.loadConfig(config)
		config.done()
	}
	if !out.list && (!ok || !config.has("InputType")) {
		r.problem("ReaderConfig/InputType", "is missing: CSV, JSON or JSONL")
	}
	r.done()
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (r *itemReader) loadConfig(c *fields) {
	kind, ok := c.text("InputType")
	switch {
	case !ok:
	case r.list:
		c.problem("InputType", "is not for listings")
	case kind == "CSV" || kind == "JSON" || kind == "JSONL":
		r.inputType = kind
	default:
		c.problem("InputType", "%q is not supported: only CSV, JSON and JSONL are", kind)
	}
	c.refuse("Transformation", "objects that are listed are not read")
	r.maxItems = c.whole("MaxItems", 0, mostItems)
	if pointer, ok := c.text("ItemsPointer"); ok {
		r.pointer = pointer
		if r.inputType != "JSON" {
			c.problem("ItemsPointer", "needs InputType JSON")
		}
		if pointer != "" && pointer[0] != '/' {
			c.problem("ItemsPointer", "is a JSON pointer such as /data/items")
		}
	}
	location, hasLocation := c.oneOf("CSVHeaderLocation", "FIRST_ROW", "GIVEN")
	headers := c.texts("CSVHeaders")
	delimiter, hasDelimiter := c.text("CSVDelimiter")
	r.delimiter = ','
	if hasDelimiter {
		if r.delimiter, ok = delimiters[delimiter]; !ok {
			c.problem("CSVDelimiter", "is COMMA, PIPE, SEMICOLON, SPACE or TAB")
		}
	}
	if r.inputType == "CSV" {
		switch {
		case location == "GIVEN" && headers == nil && !c.has("CSVHeaders"):
			c.problem("CSVHeaders", "is missing")
		case location == "FIRST_ROW" && c.has("CSVHeaders"):
			c.problem("CSVHeaders", "needs CSVHeaderLocation GIVEN")
		case !hasLocation:
			c.problem("CSVHeaderLocation", "is missing: FIRST_ROW or GIVEN")
		}
		r.headers = headers
	} else if hasLocation || hasDelimiter || c.has("CSVHeaders") {
		c.problem("", "has fields for CSV, and the InputType is not CSV")
	}
}

// checkParameters checks the names in Parameters that go to the object store.
func checkParameters(f *fields, t *expr.Template, allowed, required []string) {
	if t == nil {
		f.problem("Parameters", "is missing")
		return
	}
	names, ok := t.Names()
	if !ok {
		f.problem("Parameters", "must be an object")
	}
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			f.problem("Parameters/"+name, "unknown field")
		}
	}
	for _, name := range required {
		if !t.Has(name) {
			f.problem("Parameters/"+name, "is missing")
		}
	}
}

// limit evaluates MaxItems: 0 and more than AWS reads stand for all.
func (r *itemReader) limit(f *frame, input any) (int64, error) {
	n, _, err := f.whole(&r.maxItems, input)
	if n == 0 || n > mostItems {
		n = mostItems
	}
	return n, err
}

// read reads the items. Failures are States.ItemReaderFailed.
func (r *itemReader) read(ctx context.Context, f *frame, input any, limit int64) ([]any, error) {
	if limit < 0 {
		return nil, &Error{errItemReader, "field MaxItems must be positive"}
	}
	p, err := f.objectParameters(r.parameters, input)
	if err != nil {
		return nil, err
	}
	objects := f.x.engine.Objects
	if objects == nil {
		return nil, errors.New("the engine has no Objects to read items from")
	}
	var items []any
	source := fmt.Sprintf("s3://%s/%s", p["Bucket"], p["Key"])
	if r.list {
		source = fmt.Sprintf("s3://%s/%s", p["Bucket"], p["Prefix"])
		items, err = r.listing(ctx, objects, p["Bucket"], p["Prefix"], limit)
	} else {
		var body io.ReadCloser
		if body, err = objects.Get(ctx, p["Bucket"], p["Key"]); err == nil {
			items, err = r.parse(body, limit)
			err = errors.Join(err, body.Close())
		}
	}
	switch {
	case err == nil:
		return items, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, &Error{errItemReader, fmt.Sprintf("read items of %s: %v", source, err)}
}

// objectParameters evaluates Parameters of strings.
func (f *frame) objectParameters(t *expr.Template, input any) (map[string]string, error) {
	v, err := f.fill(t, input)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	object, _ := v.(map[string]any)
	for name, v := range object {
		s, ok := v.(string)
		if !ok {
			return nil, f.runtime("The field %s of Parameters is not a string.", name)
		}
		out[name] = s
	}
	return out, nil
}

func (r *itemReader) listing(ctx context.Context, objects Objects, bucket, prefix string, limit int64) ([]any, error) {
	items := []any{}
	for o, err := range objects.List(ctx, bucket, prefix) {
		if err != nil {
			return nil, err
		}
		if int64(len(items)) == limit {
			break
		}
		class := o.StorageClass
		if class == "" {
			class = "STANDARD"
		}
		items = append(items, map[string]any{
			"Etag": o.ETag, "Key": o.Key, "LastModified": expr.Number(o.LastModified.Unix()),
			"Size": expr.Number(o.Size), "StorageClass": class,
		})
	}
	return items, nil
}

func (r *itemReader) parse(body io.Reader, limit int64) ([]any, error) {
	in := bufio.NewReaderSize(body, 64*1024)
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	switch r.inputType {
	case "CSV":
		return r.parseCSV(in, limit)
	case "JSONL":
		return parseLines(in, limit)
	}
	b, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	v, err := expr.Decode(b)
	if err != nil {
		return nil, err
	}
	if v, err = follow(v, r.pointer); err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("attempting to map over non-iterable node: it is not an array")
	}
	return list[:min(int64(len(list)), limit)], nil
}

// follow follows a JSON pointer.
func follow(v any, pointer string) (any, error) {
	if pointer == "" {
		return v, nil
	}
	for name := range strings.SplitSeq(pointer[1:], "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		object, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("there is nothing at %s", pointer)
		}
		if v, ok = object[name]; !ok {
			return nil, fmt.Errorf("there is nothing at %s", pointer)
		}
	}
	return v, nil
}

func parseLines(in *bufio.Reader, limit int64) ([]any, error) {
	items := []any{}
	for n := 1; int64(len(items)) < limit; n++ {
		line, err := in.ReadBytes('\n')
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			v, err := expr.Decode(trimmed)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			items = append(items, v)
		}
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (r *itemReader) parseCSV(in io.Reader, limit int64) ([]any, error) {
	rows := csv.NewReader(in)
	rows.Comma = r.delimiter
	rows.FieldsPerRecord = -1
	rows.LazyQuotes = true
	headers := r.headers
	if headers == nil {
		first, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return []any{}, nil
		}
		if err != nil {
			return nil, err
		}
		headers = first
	}
	sorted := slices.Sorted(slices.Values(headers))
	if len(slices.Compact(sorted)) != len(headers) {
		return nil, errors.New("CSV headers cannot contain duplicates")
	}
	items := []any{}
	for int64(len(items)) < limit {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		item := make(map[string]any, len(headers))
		for i, h := range headers {
			item[h] = ""
			if i < len(row) {
				item[h] = row[i]
			}
		}
		items = append(items, item)
	}
	return items, nil
}

// encodeItems applies ItemSelector to the items and encodes what comes out.
func (st *mapState) encodeItems(f *frame, input any, items []any) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(items))
	for i, item := range items {
		v, err := st.selected(f, input, i, item)
		if err != nil {
			return nil, err
		}
		if out[i], err = expr.Encode(v); err != nil {
			return nil, err
		}
		if len(out[i]) > MaxPayload {
			return nil, &Error{errDataLimit, fmt.Sprintf("item %d has %d bytes; the limit is %d", i, len(out[i]), MaxPayload)}
		}
	}
	return out, nil
}
