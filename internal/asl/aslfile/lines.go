package aslfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hindcast/internal/asl"
)

// DamageError says that a history cannot be read past an offset.
type DamageError struct {
	File   string
	Offset int64 // bytes, of the line that is damaged; in a .gz file after decompression
	Reason string
}

// Error says where the damage is and what can be done.
func (e *DamageError) Error() string {
	return fmt.Sprintf("history %s is damaged at byte %d: %s; restore the file from a copy, or start a new execution", e.File, e.Offset, e.Reason)
}

// maxLine is the most bytes that a line may have: an event has a few payloads of 256 KiB.
const maxLine = 16 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A line is the event's object with one more member at its end: the CRC-32C of the object
// without it.
const (
	checkHead = `,"crc":"`
	checkTail = `"}`
	checkSize = len(checkHead) + 8 + len(checkTail)
)

func encode(buf *bytes.Buffer, ev *asl.Event) error {
	start := buf.Len()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ev); err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	body := bytes.TrimSuffix(buf.Bytes()[start:], []byte("\n"))
	sum := crc32.Checksum(body, castagnoli)
	buf.Truncate(start + len(body) - 1) // without }
	fmt.Fprintf(buf, "%s%08x%s\n", checkHead, sum, checkTail)
	return nil
}

// decode parses a line without its newline.
func decode(line []byte) (asl.Event, error) {
	var ev asl.Event
	at := len(line) - checkSize
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(checkHead)) || !bytes.HasSuffix(line, []byte(checkTail)) {
		return ev, errors.New("the line has no checksum")
	}
	sum, err := strconv.ParseUint(string(line[at+len(checkHead):at+len(checkHead)+8]), 16, 32)
	if err != nil {
		return ev, errors.New("the line has no checksum")
	}
	body := append(line[:at:at], '}')
	if crc32.Checksum(body, castagnoli) != uint32(sum) {
		return ev, errors.New("the line's checksum is wrong")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&ev); err != nil {
		return ev, fmt.Errorf("the line is no event: %w", err)
	}
	return ev, nil
}

// reader yields the events of a history's files.
type reader struct {
	yield  func(asl.Event, error) bool
	repair bool // remove what a crash left over

	// Where the next event is to be written.
	path  string
	size  int64
	index int
	torn  bool // something that is no event follows at path
}

// all reads everything. It returns false if that ended early, whose reason was yielded.
func (r *reader) all(dir string, segmented bool) bool {
	if !segmented {
		r.path = filepath.Join(dir, historyFile)
		return r.file(r.path, true)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r.fail(err)
	}
	kinds := map[int]string{}
	for _, e := range entries {
		base, suffix, _ := strings.Cut(e.Name(), ".")
		i, err := strconv.Atoi(base)
		if suffix = "." + suffix; err != nil || suffix != plain && suffix != compressed || len(base) != 6 {
			continue // what a crash left of a compression, or Map Runs further down
		}
		if kinds[i] != compressed { // where both are there, the compressed one is whole
			kinds[i] = suffix
		}
	}
	indices := slices.Sorted(keys(kinds))
	for n, i := range indices {
		if i != n+1 {
			return r.fail(fmt.Errorf("history %s: the file of number %06d is missing", dir, n+1))
		}
		path := segment(dir, i)
		last := n == len(indices)-1
		if kinds[i] == compressed {
			if !r.zipped(strings.TrimSuffix(path, plain) + compressed) {
				return false
			}
			if r.repair { // the compressed file is whole, so a crash left this one
				if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					return r.fail(err)
				}
			}
			continue
		}
		if !r.file(path, last) {
			return false
		}
		if last {
			r.path, r.index = path, i
			return true
		}
	}
	r.index = len(indices) + 1
	r.path, r.size = segment(dir, r.index), 0
	return true
}

func keys(m map[int]string) func(func(int) bool) {
	return func(yield func(int) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (r *reader) fail(err error) bool {
	r.yield(asl.Event{}, err)
	return false
}

func (r *reader) zipped(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return r.fail(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return r.fail(&DamageError{path, 0, err.Error()})
	}
	return r.lines(path, zip, false)
}

func (r *reader) file(path string, last bool) bool {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && last {
		return true
	}
	if err != nil {
		return r.fail(err)
	}
	defer f.Close()
	return r.lines(path, f, last)
}

// lines reads the lines of a file. In the last file an end that was torn is not damage.
func (r *reader) lines(path string, in io.Reader, last bool) bool {
	buf := bufio.NewReaderSize(in, 256*1024)
	r.size, r.torn = 0, false
	for {
		line, err := readLine(buf)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return true
		case errors.Is(err, io.EOF) && last:
			r.torn = true
			return true
		case err != nil:
			return r.fail(&DamageError{path, r.size, err.Error()})
		}
		ev, err := decode(line)
		if err != nil {
			return r.fail(&DamageError{path, r.size, err.Error()})
		}
		if !r.yield(ev, nil) {
			return false
		}
		r.size += int64(len(line)) + 1
	}
}

// readLine returns a line without its newline, or io.EOF with what is left.
func readLine(buf *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := buf.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxLine:
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("the line is longer than %d bytes", maxLine)
		case errors.Is(err, io.EOF):
			return line, io.EOF
		default:
			return nil, err
		}
	}
}
