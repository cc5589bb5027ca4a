package parquetsrc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"hindcast/internal/blob"
	"hindcast/internal/spec"
)

// sums are the SHA-256 sums that segments must have, by key.
type sums struct {
	key string // of the file
	of  map[string]string
}

const maxSums = 64 << 20

// readSums reads the file that src.Sums names, in the format of sha256sum; nil where it names none. The file must lie below the segments' location,
// and names in it are relative to its folder.
func readSums(ctx context.Context, store blob.Store, src spec.Segments) (*sums, error) {
	if src.Sums == "" {
		return nil, nil
	}
	key, ok := strings.CutPrefix(src.Sums, strings.TrimSuffix(src.Parquet, "/")+"/")
	if !ok {
		return nil, fmt.Errorf("the sums %s must lie below the segments, as %s/SHA256SUMS", src.Sums, strings.TrimSuffix(src.Parquet, "/"))
	}
	info, err := store.Head(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read sums %s: %w", key, err)
	}
	if info.Size > maxSums {
		return nil, fmt.Errorf("the sums %s have %d bytes, more than the %d that are read", key, info.Size, maxSums)
	}
	data, _, err := blob.ReadAll(ctx, store, key)
	if err != nil {
		return nil, fmt.Errorf("read sums %s: %w", key, err)
	}
	return parseSums(key, string(data))
}

// parseSums reads lines of a sum in hex, a space, a space or an asterisk, and a name.
func parseSums(key, data string) (*sums, error) {
	s := &sums{key: key, of: map[string]string{}}
	n := 0
	for line := range strings.Lines(data) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		sum, file, ok := strings.Cut(line, " ")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != 32 || len(file) < 2 || file[0] != ' ' && file[0] != '*' {
			return nil, fmt.Errorf("%s, line %d: expected a SHA-256 sum, two spaces and a name, as sha256sum writes", key, n)
		}
		target := path.Join(path.Dir(key), strings.TrimPrefix(file[1:], "./"))
		if old, ok := s.of[target]; ok && old != strings.ToLower(sum) {
			return nil, fmt.Errorf("%s, line %d: %s has two sums", key, n, file[1:])
		}
		s.of[target] = strings.ToLower(sum)
	}
	return s, nil
}

// complete makes sure that what was found and the sums name the same segments of a topic.
func (s *sums) complete(p profile, topic string, f found) error {
	if s == nil {
		return nil
	}
	var errs []error
	there := map[string]bool{}
	for _, o := range f.objects {
		there[o.Key] = true
		if s.of[o.Key] == "" {
			errs = append(errs, fmt.Errorf("%s: %s has no sum for it; if it belongs to the log, add its sum", o.Key, s.key))
		}
	}
	for _, info := range f.listed { // what was not committed is there as well
		there[info.Key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(s.of)) {
		if there[key] || !strings.HasPrefix(key, f.root) {
			continue
		}
		if _, err := f.look(p, topic, blob.Info{Key: key, Size: 1}, nil); err == nil {
			errs = append(errs, fmt.Errorf("%s: %s names it, but it is not there: the history is incomplete; restore it", key, s.key))
		}
	}
	return first(errs)
}

// CheckTail holds the file of an embedded broker, as samples have one, against the sums, where these name it: it is a part of the log, too. It is
// called before the broker is started.
func CheckTail(ctx context.Context, store blob.Store, src spec.Source) error {
	if src.Tail == nil || len(src.Tail.Brokers) == 0 {
		return nil
	}
	file, embedded := strings.CutPrefix(src.Tail.Brokers[0], spec.Embedded)
	key, below := strings.CutPrefix(file, strings.TrimSuffix(src.Segments.Parquet, "/")+"/")
	if !embedded || !below {
		return nil
	}
	s, err := readSums(ctx, store, src.Segments)
	if err != nil || s == nil || s.of[key] == "" {
		return err
	}
	o, err := store.Get(ctx, key, blob.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the tail's file %s: %w", key, err)
	}
	defer o.Body.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, o.Body); err != nil {
		return fmt.Errorf("read the tail's file %s: %w", key, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != s.of[key] {
		return fmt.Errorf("%s, the tail: its SHA-256 is %s, but %s has %s: it was damaged or replaced; restore it, or update the sums if it was replaced on purpose",
			key, got, s.key, s.of[key])
	}
	return nil
}
