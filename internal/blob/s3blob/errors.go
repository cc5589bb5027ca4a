package s3blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"hindcast/internal/blob"
)

// status gives the HTTP status of a refused request, or 0.
func status(err error) int {
	if re, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return re.HTTPStatusCode()
	}
	return 0
}

// code gives S3's word for a refusal, or "". Answers to HEAD have no body, so
// there the SDK makes one up of the status.
func code(err error) string {
	if ae, ok := errors.AsType[smithy.APIError](err); ok {
		return ae.ErrorCode()
	}
	return ""
}

// classify turns an SDK error into one of blob's. The SDK's types end here.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch code := code(err); {
	case code == "NoSuchBucket":
		return errors.New("the bucket does not exist; create it, or correct its name or AWS_REGION")
	case status(err) == http.StatusNotFound:
		return blob.ErrNotFound
	case status(err) == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: S3 says it is another object by now", blob.ErrPrecondition)
	case transient(err):
		return fmt.Errorf("%w: %s", blob.ErrTransient, describeErr(err))
	case status(err) == http.StatusForbidden:
		return fmt.Errorf("%s; S3 says so of an object that does not exist, too, to who may not list the bucket (s3:ListBucket)", describeErr(err))
	case status(err) == http.StatusMovedPermanently || code == "AuthorizationHeaderMalformed":
		return fmt.Errorf("%s; is the bucket in another region? set AWS_REGION", describeErr(err))
	}
	return errors.New(describeErr(err))
}

// classifyPut also knows how stores refuse a conditional put: 412; 404 when the
// object to match is gone; 409 when another request to the key was under way. Each
// time the store is not changed by it. After a 409 the object may still be what the caller takes it for: it
// reads back, as always, and tries again.
func classifyPut(ctx context.Context, err error, cond blob.Condition) error {
	if ctx.Err() == nil && !cond.IsZero() {
		switch c := code(err); {
		case c == "ConditionalRequestConflict" || c == "OperationAborted":
			return fmt.Errorf("%w: another request for the key was under way", blob.ErrPrecondition)
		case status(err) == http.StatusNotFound && c != "NoSuchBucket":
			return fmt.Errorf("%w: the object is gone", blob.ErrPrecondition)
		case status(err) == http.StatusPreconditionFailed && cond.IfAbsent:
			return fmt.Errorf("%w: there is an object already", blob.ErrPrecondition)
		}
	}
	return classify(ctx, err)
}

// transient reports what may go away by itself: what the SDK would retry, and
// every way in which a connection breaks.
func transient(err error) bool {
	if s := status(err); s != 0 {
		switch s {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout, 509:
			return true
		}
		return code(err) == "OperationAborted" || retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
	}
	_, unsent := errors.AsType[*smithyhttp.RequestSendError](err)
	_, network := errors.AsType[net.Error](err)
	return unsent || network || errors.Is(err, io.ErrUnexpectedEOF) ||
		retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
}

// describeErr says in a line what went wrong, with the request's id where there is one.
func describeErr(err error) string {
	var parts []string
	if s := status(err); s != 0 {
		parts = append(parts, fmt.Sprintf("status %d", s))
	}
	if ae, ok := errors.AsType[smithy.APIError](err); ok {
		parts = append(parts, strings.TrimSpace(ae.ErrorCode()+" "+ae.ErrorMessage()))
	}
	if re, ok := errors.AsType[*awshttp.ResponseError](err); ok && re.ServiceRequestID() != "" {
		parts = append(parts, "request "+re.ServiceRequestID())
	}
	if len(parts) > 0 {
		return strings.Join(parts, ", ")
	}
	if oe, ok := errors.AsType[*smithy.OperationError](err); ok {
		return oe.Unwrap().Error()
	}
	return err.Error()
}
