package asl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hindcast/internal/asl/expr"
)

// resultWriter is a ResultWriter: it forms the results of a Map Run and writes them to objects.
type resultWriter struct {
	parameters     *expr.Template // Bucket and Prefix; nil: the results are the state's own
	transformation string
	lines          bool // JSONL
}

func loadResultWriter(f *fields) *resultWriter {
	w, ok := f.object("ResultWriter")
	if !ok {
		return nil
	}
	out := &resultWriter{transformation: "NONE"}
	resource, given := w.text("Resource")
	if given {
		if resource != putObject {
			w.problem("Resource", "%q is not supported: only %s is", resource, putObject)
		}
		out.parameters = w.template("Parameters")
		checkParameters(w, out.parameters, []string{"Bucket", "Prefix"}, []string{"Bucket"})
	} else if w.has("Parameters") {
		w.get("Parameters")
		w.problem("Resource", "is missing: %s", putObject)
	}
	config, ok := w.object("WriterConfig")
	if ok {
		if t, ok := config.oneOf("Transformation", "NONE", "COMPACT", "FLATTEN"); ok {
			out.transformation = t
		} else if !config.has("Transformation") {
			config.problem("Transformation", "is missing: NONE, COMPACT or FLATTEN")
		}
		kind, _ := config.oneOf("OutputType", "JSON", "JSONL")
		out.lines = kind == "JSONL"
		if out.lines && out.parameters == nil {
			config.problem("OutputType", "JSONL needs Resource and Parameters: a state's output is JSON")
		}
		config.done()
	} else if !given {
		w.problem("", "must not be empty")
	}
	w.done()
	return out
}

// childRecord is a child execution in a result file.
type childRecord struct {
	ExecutionArn    string
	Input           string
	InputDetails    included
	Name            string
	Output          *string   `json:",omitempty"`
	OutputDetails   *included `json:",omitempty"`
	Error           string    `json:",omitempty"`
	Cause           string    `json:",omitempty"`
	RedriveCount    int
	RedriveStatus   string
	RedriveReason   string `json:"RedriveStatusReason,omitempty"`
	StartDate       string `json:",omitempty"`
	StateMachineArn string
	Status          string
	StopDate        string `json:",omitempty"`
}

type included struct{ Included bool }

func (r *mapRun) describe(i int) childRecord {
	c := &r.children[i]
	x := r.child(i)
	out := childRecord{
		ExecutionArn: x.arn, Input: string(r.inputs[i]), InputDetails: included{true}, Name: c.name,
		StateMachineArn: x.machineARN, Status: string(c.result.Status), RedriveStatus: "NOT_REDRIVABLE",
	}
	if c.result.Status == "" {
		out.Status = "PENDING"
		return out
	}
	if c.result.Status == Succeeded {
		text := string(c.result.Output)
		out.Output, out.OutputDetails = &text, &included{true}
	} else {
		out.Error, out.Cause = c.result.Error, c.result.Cause
	}
	if out.RedriveCount, out.RedriveReason = c.redrives, c.final; c.final == "" {
		out.RedriveStatus = "REDRIVABLE_BY_MAP_RUN"
	}
	out.StartDate, out.StopDate = stamp(c.start), stamp(c.stop)
	return out
}

// forms returns what a child execution contributes: itself, its output, or the elements of
// its output. What failed is always told in full.
func (w *resultWriter) forms(r *mapRun, i int) ([]json.RawMessage, error) {
	result := r.children[i].result
	transformation := "COMPACT"
	if w != nil {
		transformation = w.transformation
	}
	if result.Status != Succeeded || transformation == "NONE" {
		b, err := expr.Encode(r.describe(i))
		return []json.RawMessage{b}, err
	}
	if transformation == "FLATTEN" {
		var elements []json.RawMessage
		if json.Unmarshal(result.Output, &elements) == nil && result.Output[0] == '[' {
			return elements, nil
		}
	}
	return []json.RawMessage{result.Output}, nil
}

// values are the results as the state's result, where nothing is written.
func (w *resultWriter) values(r *mapRun) (any, error) {
	out := []any{}
	size := 0
	for i := range r.children {
		forms, err := w.forms(r, i)
		if err != nil {
			return nil, err
		}
		for _, form := range forms {
			if size += len(form) + 1; size > MaxPayload {
				return nil, &Error{errDataLimit, fmt.Sprintf(
					"The state/task '%s' returned a result with a size exceeding the maximum number of bytes service limit.", r.state.name)}
			}
			v, err := expr.Decode(form)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
	}
	return out, nil
}

// maxResultFile is how many bytes a result file has before another is begun.
const maxResultFile = 64 << 20

type resultFile struct {
	Key  string
	Size int
}

// write writes the results in the layout of Step Functions and returns the state's result.
// Names and contents depend on the execution only, so writing again changes nothing.
func (w *resultWriter) write(ctx context.Context, r *mapRun, input any) (any, error) {
	p, err := r.objectParameters(w.parameters, input)
	if err != nil {
		return nil, err
	}
	objects := r.x.engine.Objects
	if objects == nil {
		return nil, errors.New("the engine has no Objects to write results to")
	}
	prefix := strings.TrimSuffix(p["Prefix"], "/")
	if prefix != "" {
		prefix += "/"
	}
	prefix += r.id + "/"
	failed := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &Error{errResultWriter, fmt.Sprintf("write results to s3://%s/%s: %v", p["Bucket"], prefix, err)}
	}
	files := map[string][]resultFile{"SUCCEEDED": {}, "FAILED": {}, "PENDING": {}}
	for _, status := range []string{"SUCCEEDED", "FAILED", "PENDING"} {
		pack := packer{lines: w.lines, put: func(n int, body []byte) error {
			key := fmt.Sprintf("%s%s_%d.json%s", prefix, status, n, map[bool]string{true: "l"}[w.lines])
			files[status] = append(files[status], resultFile{key, len(body)})
			return objects.Put(ctx, p["Bucket"], key, body)
		}}
		for i := range r.children {
			if fileOf(r.children[i].result.Status) != status {
				continue
			}
			forms, err := w.forms(r, i)
			if err != nil {
				return nil, err
			}
			for _, form := range forms {
				if err := pack.add(form); err != nil {
					return nil, failed(err)
				}
			}
		}
		if err := pack.flush(); err != nil {
			return nil, failed(err)
		}
	}
	manifest, err := expr.Encode(map[string]any{"DestinationBucket": p["Bucket"], "MapRunArn": r.arn, "ResultFiles": files})
	if err != nil {
		return nil, err
	}
	key := prefix + "manifest.json"
	if err := objects.Put(ctx, p["Bucket"], key, manifest); err != nil {
		return nil, failed(err)
	}
	return map[string]any{
		"MapRunArn":           r.arn,
		"ResultWriterDetails": map[string]any{"Bucket": p["Bucket"], "Key": key},
	}, nil
}

// fileOf is the kind of file that a child execution is in.
func fileOf(s Status) string {
	switch s {
	case Succeeded:
		return "SUCCEEDED"
	case "":
		return "PENDING"
	}
	return "FAILED"
}

// packer gathers values into files.
type packer struct {
	lines bool
	put   func(n int, body []byte) error
	buf   bytes.Buffer
	files int
}

func (p *packer) add(v json.RawMessage) error {
	switch {
	case p.lines:
	case p.buf.Len() == 0:
		p.buf.WriteByte('[')
	default:
		p.buf.WriteByte(',')
	}
	p.buf.Write(v)
	if p.lines {
		p.buf.WriteByte('\n')
	}
	if p.buf.Len() >= maxResultFile {
		return p.flush()
	}
	return nil
}

func (p *packer) flush() error {
	if p.buf.Len() == 0 {
		return nil
	}
	if !p.lines {
		p.buf.WriteByte(']')
	}
	err := p.put(p.files, bytes.Clone(p.buf.Bytes()))
	p.files++
	p.buf.Reset()
	return err
}
