; Ranges of a function, from the part of a number on, while some are left: see entries.py.
define void @$name(ptr %job, i64 %number) {
entry:
  %units.at = getelementptr i64, ptr %job, i64 2
  %units = load i64, ptr %units.at
  %part.at = getelementptr i64, ptr %job, i64 3
  %part = load i64, ptr %part.at
  %step.at = getelementptr i64, ptr %job, i64 4
  %step = load i64, ptr %step.at
  %parts.at = getelementptr i64, ptr %job, i64 5
  %parts = load i64, ptr %parts.at
  %firsts = getelementptr i64, ptr %job, i64 6
  %given = getelementptr i64, ptr %firsts, i64 %parts
$loads
  br label %next
next:
  %turn = phi i64 [ 0, %entry ], [ %turns, %left ]
  %some = icmp slt i64 %turn, %parts
  br i1 %some, label %begin, label %done
begin:
  %sum = add i64 %number, %turn
  %i = urem i64 %sum, %parts
  %after = add i64 %i, 1
  %until = mul i64 %after, %part
  %short = icmp slt i64 %units, %until
  %end = select i1 %short, i64 %units, i64 %until
  %first = getelementptr i64, ptr %firsts, i64 %i
  br label %take
take:
  %from = atomicrmw add ptr %first, i64 %step monotonic
  %here = icmp slt i64 %from, %end
  br i1 %here, label %run, label %left
run:
  %most = add i64 %from, %step
  %last = icmp slt i64 %end, %most
  %to = select i1 %last, i64 %end, i64 %most
  call void @$name.part(i64 %from, i64 %to$given)
  br label %take
left:
  %turns = add i64 %turn, 1
  br label %next
done:
  ret void
}
