package main

import "fmt"

// unjudged are the files whose own answers were not judged, since they are of keys and values before a lossy cache
// rounded them.
type unjudged struct {
	files    int
	dtype    string
	farthest float64 // |out − the file's own|, of the outs
	census           // of them
}

func (u *unjudged) add(r *fileReport) {
	if r.err != nil || !r.unjudged() {
		return
	}
	u.files++
	u.dtype = r.KVDType
	u.farthest = max(u.farthest, r.file.Err)
	u.census = u.plus(r.file.census)
}

// String says what was judged and what was not; "" where all was.
func (u *unjudged) String() string {
	if u.files == 0 {
		return ""
	}
	text := fmt.Sprintf("Judged by the direct softmax of keys and values as %s holds them. Not judged: the own out and lse of %s, which are of those before they were rounded",
		u.dtype, count(u.files, "file"))
	if u.outs > 0 {
		text += fmt.Sprintf("; out is up to %.2g from them", u.farthest)
	}
	if lost := u.lossWords(); lost != "" {
		text += "; " + lost
	}
	return text + "."
}
