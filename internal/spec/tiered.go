package spec

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// TieredLayout is how the segments of Kafka's tiered storage lie. Package tieredsrc has their forms.
type TieredLayout string

// The layouts.
const (
	AivenTiered TieredLayout = "aiven" // Aiven's plugin
	LocalTiered TieredLayout = "local" // Kafka's LocalTieredStorage
)

// Tiered says where the segments lie that Kafka's tiered storage copied.
type Tiered struct {
	// At is the location: a folder, as a path relative to the project, an absolute one or a file:// URL; or s3://bucket/prefix.
	At     string       `json:"at"`
	Layout TieredLayout `json:"layout"`
	// Keys are the PEM files of the private keys that open encrypted segments, by the ids that they have there. The paths are relative to the
	// project or absolute; $NAMES of the environment in them are expanded, by [Expand].
	Keys map[string]string `json:"keys,omitempty"`
	// Value is how the records' values are encoded: as those of the tail, where there is one.
	Value ValueFormat `json:"value"`
}

// localFolder is what LocalTieredStorage puts below the folder that it is given.
const localFolder = "kafka-tiered-storage/"

// Store returns the location of the store to open, and what its segments' keys begin with: each of prefixes counts. On S3 the whole bucket is opened: the
// plugin puts its key.prefix before a topic's name as it is, with a slash or without. A folder is taken for all that the plugin was given.
func (t *Tiered) Store() (location string, prefixes []string) {
	location, prefixes = t.At, []string{""}
	if rest, ok := strings.CutPrefix(t.At, "s3://"); ok {
		bucket, prefix, _ := strings.Cut(rest, "/")
		location = "s3://" + bucket
		if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
			prefixes = []string{prefix + "/", prefix}
		}
	}
	if t.Layout == LocalTiered {
		for _, p := range slices.Clone(prefixes) {
			if p == "" || strings.HasSuffix(p, "/") {
				prefixes = append(prefixes, p+localFolder)
			}
		}
	}
	return location, prefixes
}

// tiered reads what segments say of tiered storage; nil where they are Parquet.
func (d *decoder) tiered(seg, tail *object) *Tiered {
	at := seg.get("tiered")
	if !seg.has("tiered") {
		if !seg.has("parquet") {
			d.fail(seg.line, seg.path, "the key parquet is missing: a folder of Parquet segments; or tiered, where Kafka's tiered storage lies")
		}
		for _, name := range []string{"layout", "key"} {
			if seg.has(name) {
				d.fail(seg.line, join(seg.path, name), "it is for tiered segments: take it out, or name them in tiered")
			}
		}
		return nil
	}
	for _, name := range []string{"parquet", "naming", "columns", "sums"} {
		if seg.has(name) {
			d.fail(seg.line, join(seg.path, name), "it is for Parquet segments, and the job reads tiered ones: take it, or tiered, out")
		}
	}
	t := &Tiered{Layout: TieredLayout(seg.str("layout", string(AivenTiered))), Value: ValueFormat(tail.str("value", string(JSON)))}
	if at != nil {
		t.At = at.text
		d.scheme(at)
		if u, err := url.Parse(at.text); strings.HasPrefix(at.text, "s3://") && (err != nil || u.Host == "") {
			d.fail(at.line, at.path, "found %q, expected s3://BUCKET/PREFIX", at.text)
		}
	}
	if v := seg.child("value"); v != nil {
		if c := v.get("column"); c != nil {
			d.fail(c.line, c.path, "tiered segments have records, not columns: take it out")
		}
		format := ValueFormat(v.str("format", string(t.Value)))
		if tail != nil && format != t.Value {
			d.fail(v.line, v.path, "found %s, but the tail's values are %s, and both are of one topic: source.tail.value says it for both", format, t.Value)
		}
		t.Value = format
	}
	t.Keys = d.keyFiles(seg.get("key"))
	if len(t.Keys) > 0 && t.Layout == LocalTiered {
		d.fail(seg.line, join(seg.path, "key"), "LocalTieredStorage does not encrypt: take it out")
	}
	return t
}

// keyFiles reads the files of keys by their ids.
func (d *decoder) keyFiles(v *value) map[string]string {
	if v == nil {
		return nil
	}
	out := map[string]string{}
	for i, id := range v.names {
		file, ok := v.nodes[i].(*ast.StringNode)
		switch {
		case !ok:
			d.fail(line(v.nodes[i]), join(v.path, id), "found %s, expected the path of a PEM file", describe(v.nodes[i]))
		case strings.Contains(file.Value, "-----") || strings.Contains(file.Value, "\n"):
			d.fail(line(file), join(v.path, id), "a key itself stands here, which belongs in no job.yaml: expected the path of a PEM file")
		case path.Clean(file.Value) == ".":
			d.fail(line(file), join(v.path, id), "found %q, expected the path of a PEM file", file.Value)
		default:
			out[id] = file.Value
		}
	}
	return out
}

// Located returns where the segments lie, for people.
func (s Segments) Located() string {
	if s.Tiered != nil {
		return s.Tiered.At
	}
	return s.Parquet
}
