// Package openblob opens a store by its URL. It alone knows which drivers there are.
package openblob

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/blob/s3blob"
)

// Open opens the store at rawURL: an absolute path, file:///path, or
// s3://bucket/prefix, which is given [blob.Retry] with its defaults. S3's
// endpoint, region and credentials come from the environment, as the AWS SDK reads it.
func Open(ctx context.Context, rawURL string) (blob.Store, error) {
	switch scheme, _, ok := strings.Cut(rawURL, "://"); {
	case !ok && filepath.IsAbs(rawURL):
		return fileblob.New(rawURL)
	case ok && scheme == "file":
		u, err := url.Parse(rawURL)
		if err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		if u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("open store %s: want file:///absolute/path, with %%3F for ? and %%23 for #", rawURL)
		}
		return fileblob.New(filepath.FromSlash(u.Path))
	case ok && scheme == "s3":
		s, err := s3blob.New(ctx, rawURL, s3blob.Options{})
		if err != nil {
			return nil, err
		}
		return blob.Retry(s, blob.RetryOptions{}), nil
	}
	return nil, fmt.Errorf("open store %q: want an absolute path, file:///path or s3://bucket/prefix", rawURL)
}
