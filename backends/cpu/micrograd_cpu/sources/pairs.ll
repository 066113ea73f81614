; Pairs of elements, and the flags that they raise: see pairs.py.

declare i32 @feclearexcept(i32)
declare i32 @fetestexcept(i32)

define internal void @loop(i64 %begin, i64 %end, ptr noalias %x, ptr noalias %y, ptr noalias %out) noinline {
entry:
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %xs = getelementptr inbounds $type, ptr %x, i64 $x
  %ys = getelementptr inbounds $type, ptr %y, i64 $y
  %outs = getelementptr inbounds $type, ptr %out, i64 %i
  %left = load $type, ptr %xs
  %right = load $type, ptr %ys
  %both = $both $type %left, %right
  store $type %both, ptr %outs
  %next = add nuw nsw i64 %i, 1
  br label %head
done:
  ret void
}

define internal void @watched(i64 %begin, i64 %end, ptr %x, ptr %y, ptr %out, ptr %raised) {
  %cleared = call i32 @feclearexcept(i32 $flags)
  call void @loop(i64 %begin, i64 %end, ptr %x, ptr %y, ptr %out)
  %set = call i32 @fetestexcept(i32 $flags)
  %before = atomicrmw or ptr %raised, i32 %set monotonic
  ret void
}
