package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
)

// ErrConditionsIgnored means that a store does not do what the conditions of puts
// ask: on such a store updates would be lost.
var ErrConditionsIgnored = errors.New("the store ignores the conditions of puts")

// Probe proves that s honours IfAbsent and IfMatch, at the price of about ten requests. It
// writes and deletes an object whose name begins with key, never the same twice. An
// error that wraps ErrConditionsIgnored names what was ignored; there is no going on without.
func Probe(ctx context.Context, s Store, key string) (err error) {
	name := key + "-" + rand.Text()
	defer func() {
		if delErr := s.Delete(context.WithoutCancel(ctx), name); err == nil && delErr != nil {
			err = fmt.Errorf("probe the store: %w", delErr)
		}
	}()
	var ignored []string
	// refused makes a put that must not succeed. All bodies are equally long, in case tags are made of lengths.
	refused := func(what, body string, cond Condition) error {
		_, err := PutBytes(ctx, s, name, []byte(body), cond)
		switch {
		case err == nil:
			ignored = append(ignored, what)
		case !errors.Is(err, ErrPrecondition):
			return fmt.Errorf("probe the store, %s: %w", what, err)
		}
		return nil
	}
	// accepted makes a put whose condition is met.
	accepted := func(what, body string, cond Condition) (Info, error) {
		info, err := PutBytes(ctx, s, name, []byte(body), cond)
		if err != nil {
			return info, fmt.Errorf("probe the store, %s: %w", what, err)
		}
		return info, nil
	}

	one, err := accepted("IfAbsent without an object", "probe 1", Condition{IfAbsent: true})
	if err != nil {
		return err
	}
	if err := refused("IfAbsent over an object", "probe 2", Condition{IfAbsent: true}); err != nil {
		return err
	}
	if len(ignored) > 0 { // by now it is another object
		if one, err = accepted("a put without condition", "probe 1", Condition{}); err != nil {
			return err
		}
	}
	two, err := accepted("IfMatch with the object's tag", "probe 3", Condition{IfMatch: one.ETag})
	if err != nil {
		return err
	}
	if two.ETag == one.ETag {
		ignored = append(ignored, "that another object needs another tag")
	} else if err := refused("IfMatch with an older object's tag", "probe 4", Condition{IfMatch: one.ETag}); err != nil {
		return err
	}
	if err := s.Delete(ctx, name); err != nil {
		return fmt.Errorf("probe the store: %w", err)
	}
	if err := refused("IfMatch without an object", "probe 5", Condition{IfMatch: two.ETag}); err != nil {
		return err
	}
	if len(ignored) > 0 {
		return fmt.Errorf("%w: %s; keep the dataset on a store that honours them, as S3 does", ErrConditionsIgnored, strings.Join(ignored, ", "))
	}
	return nil
}
