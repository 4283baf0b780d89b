// Cuts a byte stream into frames; no I/O in it. One per direction of a connection, used by one thread.
//
// Invariant: between calls the reader holds either nothing or the beginning of exactly one frame, less
// than that frame's size, at most `max_frame_bytes`; so a peer costs at most that much memory.
//
//   reader.feed(chunk);
//   while (auto frame = reader.next()) ... // borrows from the chunk, or from the reader's own buffer
//                                          // where the frame began in an earlier chunk
//   if (reader.error()) ...                // the size field is impossible: answer and close
//
// A frame's bytes are valid until the next call of feed(). next() must be drained before the next feed().
// A frame that lies whole within the chunk is never copied. (The signatures may be refined.)
#pragma once
