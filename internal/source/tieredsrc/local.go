package tieredsrc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"hindcast/internal/blob"
)

const maxCheckpoint = 4 << 20

// describeLocal reads what LocalTieredStorage has no manifest for: the leader epochs, and where the last batch ends.
func (s *segment) describeLocal(ctx context.Context, store blob.Store) error {
	raw, err := whole(ctx, store, s.parts[partEpochs], maxCheckpoint)
	if err != nil {
		return err
	}
	history, err := parseCheckpoint(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", s.stem+partEpochs, err)
	}
	s.size = s.parts[partLog].Size
	s.next = s.base
	if s.size == 0 {
		return nil
	}
	in, err := s.seek(ctx, store, s.base+1<<32) // the last entry of the offset index
	if err != nil {
		return err
	}
	for {
		_, _, err := in.batch(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	s.next = in.next
	s.epochs, err = within(history, s.base, s.next)
	return err
}
