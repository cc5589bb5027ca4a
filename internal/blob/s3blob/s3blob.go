// Package s3blob keeps objects in an S3 bucket, or in that of a store that speaks
// S3 and honours its conditions (see [blob.Probe]). The SDK does not retry here: that is for [blob.Retry].
//
// Refused are directory buckets (S3 Express), which list in no order, and objects
// above 5 GiB, which take a multipart upload.
package s3blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"hindcast/internal/blob"
)

// maxPut is the largest object that S3 takes in one put.
const maxPut = 5 << 30

// Options say where S3 is. What is not set comes from the environment and the
// shared configuration, as the AWS SDK reads them: AWS_ENDPOINT_URL, AWS_REGION, AWS_PROFILE, credentials.
type Options struct {
	// Endpoint is the URL of another store than AWS's.
	Endpoint string
	// Region is us-east-1 where an endpoint but no region is set.
	Region string
	// PathStyle puts the bucket in the path, not in the host name. It is implied
	// by an endpoint of one's own.
	PathStyle bool
}

// Store is a blob.Store below a prefix of a bucket.
type Store struct {
	client         *s3.Client
	bucket, prefix string // prefix is empty or ends with a slash
}

// New opens the store at a URL s3://bucket/prefix. It sends no request but those that find credentials.
func New(ctx context.Context, rawURL string, opts Options) (*Store, error) {
	bucket, prefix, err := parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", rawURL, err)
	}
	httpClient := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = 64
		t.ResponseHeaderTimeout = time.Minute
	})
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(httpClient))
	if err != nil {
		return nil, fmt.Errorf("open store %s: read the AWS configuration: %w", rawURL, err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		if opts.Endpoint != "" {
			o.BaseEndpoint = &opts.Endpoint
		}
		if opts.Region != "" {
			o.Region = opts.Region
		}
		if o.BaseEndpoint != nil && o.Region == "" {
			o.Region = "us-east-1"
		}
		o.UsePathStyle = opts.PathStyle || o.BaseEndpoint != nil
		o.Retryer = aws.NopRetryer{}
		// Objects that were uploaded in parts have no checksum to validate; that is no news.
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	if client.Options().Region == "" {
		return nil, fmt.Errorf("open store %s: the region is not known; set AWS_REGION, or AWS_ENDPOINT_URL for a store that is not AWS's", rawURL)
	}
	return &Store{client: client, bucket: bucket, prefix: prefix}, nil
}

// parse splits s3://bucket/prefix. The prefix is taken as it is written: S3 URLs have no escapes.
func parse(rawURL string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(rawURL, "s3://")
	if !ok {
		return "", "", errors.New("want s3://bucket/prefix")
	}
	bucket, prefix, _ = strings.Cut(rest, "/")
	if bucket == "" {
		return "", "", errors.New("it names no bucket; want s3://bucket/prefix")
	}
	if strings.HasSuffix(bucket, "--x-s3") {
		return "", "", errors.New("directory buckets are not supported, since they do not list in order; name a general purpose bucket")
	}
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return bucket, "", nil
	}
	return bucket, prefix + "/", blob.CheckKey(prefix)
}

// name gives an object's URL, for errors.
func (s *Store) name(key string) string { return "s3://" + s.bucket + "/" + s.prefix + key }

// key checks a key and makes it the bucket's.
func (s *Store) key(key string) (*string, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	full := s.prefix + key
	return &full, blob.CheckKey(full) // it may be too long by now
}

// Get opens an object; see [blob.Store].
func (s *Store) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	o, err := s.get(ctx, key, opts)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", s.name(key), err)
	}
	return o, nil
}

func (s *Store) get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	full, err := s.key(key)
	if err != nil {
		return nil, err
	}
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: full}
	switch {
	case opts.Offset < 0 || opts.Length < 0:
		return nil, fmt.Errorf("range of %d bytes from %d: they must not be negative", opts.Length, opts.Offset)
	case opts.Length > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", opts.Offset, opts.Offset+opts.Length-1))
	case opts.Offset > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", opts.Offset))
	}
	if opts.IfMatch != "" {
		in.IfMatch = aws.String(string(opts.IfMatch))
	}
	out, err := s.client.GetObject(ctx, in)
	if status(err) == http.StatusRequestedRangeNotSatisfiable && opts.Offset == 0 {
		// The object is empty: no range lies in it, but for us all of it does.
		in.Range = nil
		out, err = s.client.GetObject(ctx, in)
	}
	if err != nil {
		return nil, classify(ctx, err)
	}
	info, err := describe(key, out)
	if err == nil {
		// Not every store heeds the condition.
		err = blob.Condition{IfMatch: opts.IfMatch}.Check(info.ETag, true)
	}
	if err != nil {
		out.Body.Close()
		return nil, err
	}
	return &blob.Object{Info: info, Body: &body{ReadCloser: out.Body, ctx: ctx, name: s.name(key)}}, nil
}

// describe reads the headers of a read; a ranged one tells the object's size in Content-Range.
func describe(key string, out *s3.GetObjectOutput) (blob.Info, error) {
	info := blob.Info{Key: key, Size: aws.ToInt64(out.ContentLength), ETag: blob.ETag(aws.ToString(out.ETag)), Modified: aws.ToTime(out.LastModified)}
	if r := aws.ToString(out.ContentRange); r != "" {
		_, total, _ := strings.Cut(r, "/")
		size, err := strconv.ParseInt(total, 10, 64)
		if err != nil {
			return info, fmt.Errorf("the answer has the odd Content-Range %q", r)
		}
		info.Size = size
	}
	return info, nil
}

// body classifies the errors of a read under way.
type body struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // the request's
	name string
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read %s: %w", b.name, classify(b.ctx, err))
	}
	return n, err
}

// Head describes an object; see [blob.Store].
func (s *Store) Head(ctx context.Context, key string) (blob.Info, error) {
	full, err := s.key(key)
	if err == nil {
		var out *s3.HeadObjectOutput
		if out, err = s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: full}); err == nil {
			return blob.Info{
				Key: key, Size: aws.ToInt64(out.ContentLength),
				ETag: blob.ETag(aws.ToString(out.ETag)), Modified: aws.ToTime(out.LastModified),
			}, nil
		}
		err = classify(ctx, err)
	}
	return blob.Info{}, fmt.Errorf("head %s: %w", s.name(key), err)
}

// List lists objects; see [blob.Store]. S3 gives at most 1,000 at once.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if limit <= 0 {
		return nil, nil
	}
	in := &s3.ListObjectsV2Input{
		Bucket: &s.bucket, Prefix: aws.String(s.prefix + prefix), MaxKeys: aws.Int32(int32(min(limit, 1000))), EncodingType: "url",
	}
	// Begun after "prefix/", a listing leaves out the folder's own marker.
	if start := s.prefix + after; start != "" {
		in.StartAfter = &start
	}
	out, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", s.name(prefix), classify(ctx, err))
	}
	var page []blob.Info
	for _, o := range out.Contents {
		key := aws.ToString(o.Key)
		if out.EncodingType == "url" {
			if key, err = url.QueryUnescape(key); err != nil {
				return nil, fmt.Errorf("list %s: the answer has the key %q: %w", s.name(prefix), aws.ToString(o.Key), err)
			}
		}
		page = append(page, blob.Info{
			Key: strings.TrimPrefix(key, s.prefix), Size: aws.ToInt64(o.Size),
			ETag: blob.ETag(aws.ToString(o.ETag)), Modified: aws.ToTime(o.LastModified),
		})
	}
	return page, nil
}

// Put writes an object; see [blob.Store]. The Info it returns has no Modified.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	info, err := s.put(ctx, key, body, cond)
	if err != nil {
		return blob.Info{}, fmt.Errorf("put %s: %w", s.name(key), err)
	}
	return info, nil
}

func (s *Store) put(ctx context.Context, key string, body io.ReadSeeker, cond blob.Condition) (blob.Info, error) {
	full, err := s.key(key)
	if err != nil {
		return blob.Info{}, err
	}
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return blob.Info{}, err
	}
	if size > maxPut {
		return blob.Info{}, fmt.Errorf("it has %d bytes; objects above 5 GiB are not supported yet: write smaller files", size)
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return blob.Info{}, err
	}
	in := &s3.PutObjectInput{Bucket: &s.bucket, Key: full, Body: body, ContentLength: &size}
	if cond.IfAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	if cond.IfMatch != "" {
		in.IfMatch = aws.String(string(cond.IfMatch))
	}
	out, err := s.client.PutObject(ctx, in)
	if err != nil {
		return blob.Info{}, classifyPut(ctx, err, cond)
	}
	return blob.Info{Key: key, Size: size, ETag: blob.ETag(aws.ToString(out.ETag))}, nil
}

// Delete removes an object; see [blob.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	full, err := s.key(key)
	if err == nil {
		_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: full})
		if err = classify(ctx, err); err == nil || errors.Is(err, blob.ErrNotFound) {
			return nil
		}
	}
	return fmt.Errorf("delete %s: %w", s.name(key), err)
}
