// Package lambda runs Lambda functions on this machine as they are deployed: their own binaries, in execution environments that are
// driven over the Lambda Runtime API. An environment is a process. It takes one invocation at a time, is frozen between two, is killed
// when an invocation passes its time or the environment its memory, and is replaced after a crash.
//
// See https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html and …/lambda-runtime-environment.html. What is not imitated: shares of a CPU by
// memory, extensions, X-Ray, the file system's limits.
package lambda

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"hindcast/internal/unit"
)

// Function is a function as it is deployed.
type Function struct {
	Name      string
	Bootstrap string   // its executable
	Env       []string // "NAME=value", beside the environment of this process and what Lambda sets
	// Timeout is the most that an invocation takes; 0 means [MaxTimeout].
	Timeout time.Duration
	// Memory is what an environment may hold, resident; 0 means no limit. It is enforced where there is a /proc.
	Memory unit.Bytes
	// Concurrency is the number of environments; 0 means 1.
	Concurrency int
	// Log takes what the function prints, and a line after each invocation with its time and memory; nil takes nothing.
	Log io.Writer
}

// Lambda's limits: see https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html.
const (
	MaxTimeout = 15 * time.Minute
	maxPayload = 6 << 20 // bytes, of a request and of a response
	initTime   = 10 * time.Second
)

// Error is how an invocation fails, in Lambda's words. Types of Lambda's own are listed below; others are the function's.
type Error struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// Types of errors that are not the function's.
const (
	// TimedOut means that the invocation took longer than the function's Timeout.
	TimedOut = "Sandbox.Timedout"
	// Exited means that the process ended, or was killed, before it answered.
	Exited = "Runtime.ExitError"
	// OutOfMemory means that the environment held more than the function's Memory.
	OutOfMemory = "Runtime.OutOfMemory"
	// Throttled means that all environments are at work.
	Throttled = "Lambda.TooManyRequestsException"
	// TooLarge means that the request has more than 6 MiB, ResponseTooLarge that the response has.
	TooLarge         = "Lambda.RequestTooLargeException"
	ResponseTooLarge = "Function.ResponseSizeTooLarge"
)

// Service runs a function. It is safe for concurrent use.
type Service struct {
	f Function

	mu     sync.Mutex
	idle   []*environment // the last used at the end
	live   map[*environment]struct{}
	closed bool
}

// New returns the service of a function. Environments are started when they are needed.
func New(f Function) *Service {
	f.Concurrency = cmp.Or(f.Concurrency, 1)
	f.Timeout = cmp.Or(f.Timeout, MaxTimeout)
	if f.Log == nil {
		f.Log = io.Discard
	}
	f.Log = &lockedWriter{w: f.Log}
	return &Service{f: f, live: map[*environment]struct{}{}}
}

// Invoke calls the function. What it fails with is an [*Error]; other errors mean that it was not called, or that ctx ended, which kills its environment.
func (s *Service) Invoke(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
	if len(payload) > maxPayload {
		return nil, &Error{TooLarge, fmt.Sprintf("Request must be smaller than %d bytes for the InvokeFunction operation", maxPayload)}
	}
	e, err := s.acquire()
	if err != nil {
		return nil, err
	}
	out, err := e.invoke(ctx, invocation{id: requestID(), payload: payload})
	s.release(e)
	return out, err
}

// Close kills all environments. Invocations that go on fail.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	live := s.live
	s.live, s.idle = nil, nil
	s.mu.Unlock()
	var errs []error
	for e := range live {
		errs = append(errs, e.close())
	}
	return errors.Join(errs...)
}

// acquire takes an environment that is idle, or starts one.
func (s *Service) acquire() (*environment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("invoke function %s: its service is closed", s.f.Name)
	}
	if n := len(s.idle); n > 0 {
		e := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return e, nil
	}
	if len(s.live) >= s.f.Concurrency {
		return nil, &Error{Throttled, "Rate Exceeded."}
	}
	e, err := start(&s.f)
	if err != nil {
		return nil, fmt.Errorf("start function %s: %w", s.f.Name, err)
	}
	s.live[e] = struct{}{}
	return e, nil
}

// release puts an environment back, unless it is of no more use.
func (s *Service) release(e *environment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed: // Close has ended it
	case e.broken:
		delete(s.live, e)
		_ = e.close() // it was killed: how it ended was told
	default:
		s.idle = append(s.idle, e)
	}
}

// requestID returns a random UUID, as invocations have.
func requestID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// lockedWriter lets several environments write.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
