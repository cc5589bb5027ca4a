//go:build servers

package serve

import (
	"testing"

	"hindcast/internal/blob/s3blob"
	"hindcast/internal/testenv/s3env"
)

// TestRacesOnS3 is TestRaces against a real S3 server, versitygw, which .ci/servers installs.
func TestRacesOnS3(t *testing.T) {
	s3env.Start(t)
	store, err := s3blob.New(t.Context(), "s3://bucket/lake", s3blob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	race(t, store, 5, 20)
}
