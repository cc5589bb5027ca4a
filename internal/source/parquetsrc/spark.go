package parquetsrc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"hindcast/internal/blob"
)

// spark is the output of Spark's streaming file sink: only the files that _spark_metadata commits, of which the newest compacted list and
// the batches after it are read. Its paths are absolute, so of where the files were written: those that were copied since are found
// by the end of their paths, and must have the size that was committed.
//
// Source: org.apache.spark.sql.execution.streaming (FileStreamSinkLog, CompactibleFileStreamLog).
var spark = profile{
	roots:     func(string) []string { return []string{""} },
	parse:     func(_, rel string) (name, error) { return parquetFile(rel) },
	expect:    func(string) string { return "part-….parquet beside _spark_metadata" },
	unordered: true,
	committed: sparkCommitted,
	offsets:   "have the query keep partition, offset and timestamp of its Kafka source",
}

const (
	sparkLog = "_spark_metadata"
	// maxSparkLog bounds one file of the log.
	maxSparkLog = 256 << 20
)

// commits is what a profile narrows to what was committed.
type commits struct {
	ctx     context.Context //nolint:containedctx // of one call
	store   blob.Store
	listed  []blob.Info // everything below the location
	objects *[]object   // those that are segments by their names
	passed  map[passedOver]int
}

// sparkEntry is a line of the log.
type sparkEntry struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	IsDir  bool   `json:"isDir"`
	Action string `json:"action"`
}

func sparkCommitted(c commits) error {
	batches, err := sparkBatches(c.listed)
	if err != nil {
		return err
	}
	files := map[string]sparkEntry{}
	var order []string
	for _, b := range batches {
		entries, err := readSparkBatch(c, b)
		if err != nil {
			return err
		}
		for _, e := range entries {
			switch {
			case e.Action == "delete":
				delete(files, e.Path)
			case e.Action != "add" || e.Path == "":
				return fmt.Errorf("%s: it has the action %q of %q, which is not known", b, e.Action, e.Path)
			case !e.IsDir:
				if _, ok := files[e.Path]; !ok {
					order = append(order, e.Path)
				}
				files[e.Path] = e
			}
		}
	}
	byName := map[string][]object{}
	for _, o := range *c.objects {
		byName[path.Base(o.Key)] = append(byName[path.Base(o.Key)], o)
	}
	var out []object
	taken := map[string]string{}
	var errs []error
	for _, p := range order {
		e, ok := files[p]
		if !ok {
			continue // deleted since
		}
		o, ok := findCommitted(byName, p)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s commits %s, which is not there: the history is incomplete; restore it", sparkLog, p))
		case taken[o.Key] != "":
			errs = append(errs, fmt.Errorf("%s: %s commits both %s and %s, and only one of them is there: restore the other", o.Key, sparkLog, taken[o.Key], p))
		case o.Size != e.Size:
			errs = append(errs, fmt.Errorf("%s: it has %d bytes, but %s commits %d: it was written over, or not copied whole; restore it", o.Key, o.Size, sparkLog, e.Size))
		default:
			taken[o.Key] = p
			out = append(out, o)
		}
	}
	if err := first(errs); err != nil {
		return err
	}
	if n := len(*c.objects) - len(out); n > 0 {
		c.passed[passedNoCommit] += n
	}
	slices.SortFunc(out, func(a, b object) int { return strings.Compare(a.Key, b.Key) })
	*c.objects = out
	return nil
}

// findCommitted finds the object that an absolute path means: the one whose key is the longest end of it.
func findCommitted(byName map[string][]object, p string) (found object, ok bool) {
	forms := []string{p}
	if u, err := url.PathUnescape(p); err == nil && u != p {
		forms = append(forms, u) // Spark writes paths as URLs
	}
	for _, form := range forms {
		for _, o := range byName[path.Base(form)] {
			if (form == o.Key || strings.HasSuffix(form, "/"+o.Key)) && len(o.Key) > len(found.Key) {
				found, ok = o, true
			}
		}
	}
	return found, ok
}

// sparkBatches returns the keys of the log that count: the newest compacted list, and every batch after it.
func sparkBatches(listed []blob.Info) ([]string, error) {
	newest, compacted := int64(-1), ""
	batches := map[int64]string{}
	last := int64(-1)
	for _, info := range listed {
		base, ok := strings.CutPrefix(info.Key, sparkLog+"/")
		if !ok {
			continue
		}
		digits, isCompact := strings.CutSuffix(base, ".compact")
		n, err := strconv.ParseInt(digits, 10, 63)
		if err != nil || n < 0 {
			continue // temporary files and checksums
		}
		if last = max(last, n); !isCompact {
			batches[n] = info.Key
		} else if n > newest {
			newest, compacted = n, info.Key
		}
	}
	if last < 0 {
		return nil, fmt.Errorf("there is no %s, or nothing is in it: this is no output of Spark's streaming file sink; a folder without it is read as naming: plain", sparkLog)
	}
	var keys []string
	if compacted != "" {
		keys = append(keys, compacted)
	}
	for n := newest + 1; n <= last; n++ {
		if batches[n] == "" {
			return nil, fmt.Errorf("%s/%d is missing, though there are later batches: which files it commits is not known; restore it", sparkLog, n)
		}
		keys = append(keys, batches[n])
	}
	return keys, nil
}

// readSparkBatch reads one file of the log: a line "v1", then a JSON object a line.
func readSparkBatch(c commits, key string) ([]sparkEntry, error) {
	i, _ := slices.BinarySearchFunc(c.listed, key, func(info blob.Info, key string) int { return strings.Compare(info.Key, key) })
	if c.listed[i].Size > maxSparkLog {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", key, c.listed[i].Size, maxSparkLog)
	}
	data, _, err := blob.ReadAll(c.ctx, c.store, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	version, rest, _ := strings.Cut(string(data), "\n")
	if version != "v1" {
		return nil, fmt.Errorf("%s begins with %q, expected v1: it is another version of the log, or damaged", key, version[:min(len(version), 20)])
	}
	var out []sparkEntry
	in := json.NewDecoder(strings.NewReader(rest))
	for {
		var e sparkEntry
		switch err := in.Decode(&e); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s, entry %d: %w: it is damaged or cut off; restore it", key, len(out)+1, err)
		}
		out = append(out, e)
	}
}
