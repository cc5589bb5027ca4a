package column

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"hindcast/internal/spare"
)

// Padding is how far the bit unpacker may read past the bytes that it is given.
const Padding = 32

// zstdRoom is how much room behind a page the zstd decoder wants for its fast loops, which write past the end of a block: a block and some.
// Small pages, of which many files have nothing else, do without.
const zstdRoom = 128<<10 + 64

// Codecs keep the state of codecs between pages.
type Codecs struct {
	zstd *zstd.Decoder
	gzip *gzip.Reader
}

// CodecReason says why pages of a codec are not read; it is empty for those that are.
func CodecReason(c format.CompressionCodec) string {
	switch c {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.Lz4, format.Lz4Raw:
		return ""
	}
	return fmt.Sprintf("it is compressed as %v, which is not read; use ZSTD in the exporter", c)
}

// decode decompresses src, which must give exactly size bytes, into the memory of dst, which is of package spare, or other memory of that. No codec can make
// it use more than that. After an error, dst is no more.
func (d *Codecs) decode(codec format.CompressionCodec, dst, src []byte, size int) ([]byte, error) {
	if size == 0 && len(src) == 0 {
		return dst[:0], nil
	}
	behind := Padding
	if codec == format.Zstd && size > zstdRoom/4 {
		behind = zstdRoom
	}
	dst, wide := roomFor(dst, size, behind)
	// The capacity bounds what a codec can write.
	room := dst[0:size:size]
	n := 0
	switch codec {
	case format.Uncompressed:
		n = len(src)
		if n <= size {
			copy(room, src)
		}
	case format.Snappy:
		var err error
		if n, err = snappy.DecodedLen(src); err != nil {
			return nil, err
		}
		if n == size {
			if _, err = snappy.Decode(room, src); err != nil {
				return nil, err
			}
		}
	case format.Lz4:
		var err error
		if n, err = lz4Any(src, room); err != nil {
			return nil, err
		}
	case format.Lz4Raw:
		var err error
		if n, err = lz4.UncompressBlock(src, room); err != nil {
			return nil, err
		}
	case format.Zstd:
		out, err := d.unzstd(src, wide)
		if err != nil {
			return nil, err
		}
		n = len(out)
	case format.Gzip:
		if d.gzip == nil {
			d.gzip = new(gzip.Reader)
		}
		if err := d.gzip.Reset(bytes.NewReader(src)); err != nil {
			return nil, err
		}
		var err error
		if n, err = readAll(d.gzip, room); err != nil {
			return nil, err
		}
	case format.Brotli:
		var err error
		if n, err = readAll(brotli.NewReader(bytes.NewReader(src)), room); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New(CodecReason(codec))
	}
	if n != size {
		return nil, fmt.Errorf("a page of %d bytes decompresses to %d", size, n)
	}
	return dst[:size], nil
}

// roomFor returns dst or other memory for a page of size bytes, and as what is given to a codec that may write behind it.
func roomFor(dst []byte, size, behind int) (mem, wide []byte) {
	if cap(dst) < size+behind {
		spare.Put(dst)
		dst = spare.Get(size + behind)
	}
	return dst[:size], dst[0 : 0 : size+behind]
}

func (d *Codecs) unzstd(src, dst []byte) ([]byte, error) {
	if d.zstd == nil {
		var err error
		if d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxMemory(maxPage)); err != nil {
			return nil, err
		}
	}
	return d.zstd.DecodeAll(src, dst)
}

// readAll fills dst from r, which must end there.
func readAll(r io.Reader, dst []byte) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err != nil {
		return n, err
	}
	var one [1]byte
	if m, err := io.ReadFull(r, one[:]); m > 0 {
		return 0, errors.New("a page decompresses to more than it states")
	} else if err != io.EOF {
		return 0, err
	}
	return n, nil
}

// lz4Any decompresses what writers have called LZ4, a name that the format never defined: Hadoop's blocks, frames of the lz4 tools,
// or a bare block, as LZ4_RAW is. Their first bytes tell them apart: a bare block begins with a literal, so with a byte of 16 or more,
// and Hadoop's with a length of at most maxPage, big-endian.
func lz4Any(src, dst []byte) (int, error) {
	const frame = 0x184d2204
	switch {
	case len(src) >= 4 && binary.LittleEndian.Uint32(src) == frame:
		return readAll(lz4.NewReader(bytes.NewReader(src)), dst)
	case len(src) >= 8 && src[0] < 0x10:
		return lz4Hadoop(src, dst)
	}
	return lz4.UncompressBlock(src, dst)
}

// lz4Hadoop decompresses blocks of Hadoop's BlockCompressorStream: the length of what a block holds, then parts of it, each behind its
// compressed length. Lengths are big-endian, of four bytes.
func lz4Hadoop(src, dst []byte) (n int, err error) {
	length := func() (int64, error) {
		if len(src) < 4 {
			return 0, errors.New("it ends within a length of Hadoop's framing")
		}
		v := binary.BigEndian.Uint32(src)
		src = src[4:]
		return int64(v), nil
	}
	for len(src) > 0 {
		holds, err := length()
		if err != nil {
			return 0, err
		}
		if holds > int64(len(dst)-n) {
			return 0, errors.New("a page decompresses to more than it states")
		}
		for end := n + int(holds); n < end; {
			size, err := length()
			if err != nil {
				return 0, err
			}
			if size > int64(len(src)) {
				return 0, errors.New("it ends within a block of Hadoop's framing")
			}
			m, err := lz4.UncompressBlock(src[:size], dst[n:end])
			if err != nil {
				return 0, err
			}
			n, src = n+m, src[size:]
		}
	}
	return n, nil
}
