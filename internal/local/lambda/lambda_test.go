//go:build full

package lambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	runtime "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"

	"hindcast/internal/local/lambda"
)

// TestMain lets the test's own binary be a function's bootstrap, and a driver that is killed.
func TestMain(m *testing.M) {
	switch os.Getenv("LAMBDA_TEST") {
	case "function":
		runtime.Start(handle)
	case "broken":
		os.Exit(3)
	case "driver":
		drive()
	}
	os.Exit(m.Run())
}

type order struct {
	Do    string
	Sleep time.Duration
}

type told struct {
	PID      int
	Ticks    int64
	Deadline time.Time
	Memory   string
}

var ticks atomic.Int64

var ballast []byte

func handle(ctx context.Context, in order) (any, error) {
	switch in.Do {
	case "tick": // in the background, for ever
		go func() {
			for {
				time.Sleep(time.Millisecond)
				ticks.Add(1)
			}
		}()
	case "fail":
		return nil, messages.InvokeResponse_Error{Type: "Input.Damaged", Message: "page 3"}
	case "exit":
		os.Exit(7)
	case "panic":
		panic("out of hand")
	case "eat":
		ballast = bytes.Repeat([]byte("x"), 1<<30)
	case "large":
		return strings.Repeat("x", 6<<20), nil
	}
	time.Sleep(in.Sleep)
	deadline, _ := ctx.Deadline()
	return told{os.Getpid(), ticks.Load(), deadline, os.Getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")}, nil
}

func drive() {
	s := lambda.New(function("function"))
	var out told
	if err := json.Unmarshal(must(s.Invoke(context.Background(), []byte(`{}`))), &out); err != nil {
		panic(err)
	}
	fmt.Println(out.PID) // which is frozen now
	select {}
}

func must(b json.RawMessage, err error) json.RawMessage {
	if err != nil {
		panic(err)
	}
	return b
}

func function(kind string) lambda.Function {
	return lambda.Function{Name: "Work", Bootstrap: os.Args[0], Env: []string{"LAMBDA_TEST=" + kind}, Memory: 512 << 20, Timeout: 20 * time.Second}
}

func service(t *testing.T, f lambda.Function) *lambda.Service {
	t.Helper()
	s := lambda.New(f)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func invoke(t *testing.T, s *lambda.Service, in order) (told, error) {
	t.Helper()
	payload, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Invoke(t.Context(), payload)
	var out told
	if err == nil {
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
	}
	return out, err
}

func TestAnEnvironmentIsUsedAgainAndFrozenBetween(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := function("function")
	f.Log = &log
	s := lambda.New(f)
	began := time.Now()
	first, err := invoke(t, s, order{Do: "tick"})
	if err != nil {
		t.Fatal(err)
	}
	if left := first.Deadline.Sub(began); left < 15*time.Second || left > 25*time.Second || first.Memory != "512" {
		t.Errorf("the function has %v and %s MB: it was given 20 s and 512 MB", left, first.Memory)
	}
	time.Sleep(300 * time.Millisecond)
	second, err := invoke(t, s, order{})
	if err != nil {
		t.Fatal(err)
	}
	if second.PID != first.PID {
		t.Errorf("the second invocation ran in process %d, the first in %d", second.PID, first.PID)
	}
	if second.Ticks > 200 {
		t.Errorf("it counted %d ms in the background while nobody called it", second.Ticks)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "REPORT RequestId:"); n != 2 || strings.Contains(log.String(), "Max Memory Used: 0 MB") {
		t.Errorf("the log has %d reports:\n%s", n, log.String())
	}
}

func TestInvocationsBesideEachOtherHaveEnvironmentsOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := function("function")
	f.Concurrency = 2
	s := service(t, f)
	var wg sync.WaitGroup
	var throttled atomic.Int32
	pids := make([]int, 3)
	for i := range pids {
		wg.Go(func() {
			out, err := invoke(t, s, order{Sleep: 400 * time.Millisecond})
			if failure := (*lambda.Error)(nil); errors.As(err, &failure) && failure.Type == lambda.Throttled {
				throttled.Add(1)
			} else if err != nil {
				t.Error(err)
			}
			pids[i] = out.PID
		})
	}
	wg.Wait()
	if throttled.Load() != 1 || pids[0] == pids[1] || pids[1] == pids[2] || pids[0] == pids[2] {
		t.Errorf("of three at once in two environments %d were refused; processes %v", throttled.Load(), pids)
	}
}

func TestFailuresHaveLambdasNamesAndTheNextInvocationRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do            order
		timeout       time.Duration
		typ, contains string
	}{
		"an error of the function":  {do: order{Do: "fail"}, typ: "Input.Damaged", contains: "page 3"},
		"an exit":                   {do: order{Do: "exit"}, typ: lambda.Exited, contains: "exit status 7"},
		"a panic":                   {do: order{Do: "panic"}, typ: "string", contains: "out of hand"},
		"more memory than there is": {do: order{Do: "eat", Sleep: 5 * time.Second}, typ: lambda.OutOfMemory, contains: "signal: killed"},
		"too much time":             {do: order{Sleep: 10 * time.Second}, timeout: 300 * time.Millisecond, typ: lambda.TimedOut, contains: "Task timed out after 0.30 seconds"},
		"a large response":          {do: order{Do: "large"}, typ: lambda.ResponseTooLarge, contains: "6291456"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := function("function")
			if c.timeout > 0 {
				f.Timeout = c.timeout
			}
			s := service(t, f)
			_, err := invoke(t, s, c.do)
			if failure := (*lambda.Error)(nil); !errors.As(err, &failure) || failure.Type != c.typ || !strings.Contains(failure.Message, c.contains) {
				t.Errorf("it ended with %v, not %s: …%s…", err, c.typ, c.contains)
			}
			if _, err := invoke(t, s, order{}); err != nil {
				t.Errorf("the next invocation: %v", err)
			}
		})
	}
}

func TestAFunctionThatCannotBeginIsNamed(t *testing.T) {
	t.Parallel()
	_, err := invoke(t, service(t, function("broken")), order{})
	if failure := (*lambda.Error)(nil); !errors.As(err, &failure) || failure.Type != lambda.Exited || !strings.Contains(failure.Message, "exit status 3") {
		t.Errorf("a bootstrap that exits at once gave %v", err)
	}
	f := function("function")
	f.Bootstrap = "/no/such/bootstrap"
	if _, err := invoke(t, service(t, f), order{}); err == nil || !strings.Contains(err.Error(), "/no/such/bootstrap") {
		t.Errorf("a bootstrap that is not there gave %v", err)
	}
	if _, err := lambda.New(f).Invoke(t.Context(), make([]byte, 7<<20)); err == nil || !strings.Contains(err.Error(), lambda.TooLarge) {
		t.Errorf("a request of 7 MiB gave %v", err)
	}
}

func TestAnInvocationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := service(t, function("function"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Invoke(ctx, []byte(`{"Sleep":10000000000}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it ended with %v", err)
	}
	if _, err := invoke(t, s, order{}); err != nil {
		t.Errorf("the next invocation: %v", err)
	}
}

func TestNothingIsLeftBehindWhenTheDriverIsKilled(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), "LAMBDA_TEST=driver")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // until it is frozen
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the function's process %d is gone before its driver: %v", pid, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d is still there 10 s after its driver was killed", pid)
		}
	}
}
