package org.ferry;

import java.nio.charset.StandardCharsets;

/** A model in a GGUF file that continues texts. One thread at a time; cancel() may come from any. */
public final class Ferry implements AutoCloseable {
    static {
        System.loadLibrary("ferry_jni");
    }

    private long handle;

    /** Maps the file; throws IllegalStateException with what was wrong and what to do. */
    public Ferry(String path) {
        handle = open(path.getBytes(StandardCharsets.UTF_8));
    }

    /** Up to n tokens after the prompt. Slow: not for the thread that draws. */
    public String tell(String prompt, int n) {
        if (handle == 0)
            throw new IllegalStateException("closed");
        return new String(tell(handle, prompt.getBytes(StandardCharsets.UTF_8), n), StandardCharsets.UTF_8);
    }

    /** The tell() that runs, else the next one, ends with an exception. */
    public void cancel() {
        if (handle != 0)
            cancel(handle);
    }

    @Override
    public void close() {
        if (handle != 0)
            close(handle);
        handle = 0;
    }

    private static native long open(byte[] path);
    private static native byte[] tell(long handle, byte[] prompt, int n);
    private static native void cancel(long handle);
    private static native void close(long handle);

    /** For a try on a workstation: MODEL.gguf PROMPT N. */
    public static void main(String[] args) {
        try (Ferry ferry = new Ferry(args[0])) {
            byte[] text = ferry.tell(args[1], Integer.parseInt(args[2])).getBytes(StandardCharsets.UTF_8);
            System.out.write(text, 0, text.length);
            System.out.flush();
        }
    }
}
