package step

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"hindcast/internal/blob"
)

// tags are the ETags under which the checks read the files of a candidate, all of whose bytes were those that the run wrote. They spare a promotion
// reading what did not change since; a promotion without them reads it.
type tags struct {
	mu sync.Mutex
	// Candidate is the candidate's digest.
	Candidate string `json:"candidate"`
	// Files are by path in the dataset.
	Files map[string]blob.ETag `json:"files"`
}

// add may be called concurrently.
func (t *tags) add(path string, tag blob.ETag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Files == nil {
		t.Files = map[string]blob.ETag{}
	}
	t.Files[path] = tag
}

// writeTags writes what checks that were made to their end found. Checks that are made again may find other ETags, where files were copied: what they
// found takes the place of what lay there, whatever that was. Either is true, so it does not matter whose put is the last.
func (e *Env) writeTags(ctx context.Context, run, candidate string, found *tags) error {
	found.Candidate = candidate
	b, err := json.MarshalIndent(found, "", "  ")
	if err == nil {
		_, err = blob.PutBytes(ctx, e.runStore(run), tagsKey, b, blob.Condition{})
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", tagsKey, err)
	}
	return nil
}

// tagsOf reads the ETags that checks found of a candidate. Where there are none, or none that can be read, the map is nil: files are read then. The error is
// one that may go away.
func (e *Env) tagsOf(ctx context.Context, run, candidate string) (map[string]blob.ETag, error) {
	var found tags
	switch err := readJSON(ctx, e.runStore(run), tagsKey, &found); {
	case err != nil && (blob.IsTransient(err) || ctx.Err() != nil):
		return nil, err
	case err != nil || found.Candidate != candidate:
		return nil, nil //nolint:nilerr // files are read then
	}
	return found.Files, nil
}
