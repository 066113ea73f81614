; A function of Python's: the second of two that it holds where both operands are arrays, one of them large, else the first. See pairs.py.

; Bytes of an array that lies in order, along its first axis; negative of anything else.
define internal i64 @size(ptr %x, ptr %array) alwaysinline {
entry:
  %type.at = getelementptr i8, ptr %x, i64 $type
  %type = load ptr, ptr %type.at
  %plain = icmp eq ptr %type, %array
  br i1 %plain, label %axes, label %other
axes:
  %ndim.at = getelementptr i8, ptr %x, i64 $ndim
  %ndim = load i32, ptr %ndim.at
  %some = icmp ne i32 %ndim, 0
  br i1 %some, label %first, label %other
first:
  %shape.at = getelementptr i8, ptr %x, i64 $shape
  %shape = load ptr, ptr %shape.at
  %length = load i64, ptr %shape
  %strides.at = getelementptr i8, ptr %x, i64 $strides
  %strides = load ptr, ptr %strides.at
  %stride = load i64, ptr %strides
  %size = mul i64 %length, %stride
  ret i64 %size
other:
  ret i64 -1
}

define ptr @front(ptr %self, ptr %arguments, i64 %number) nounwind {
entry:
  %held.at = getelementptr i8, ptr %self, i64 $data
  %held = load ptr, ptr %held.at
  %array.at = getelementptr ptr, ptr %held, i64 2
  %array = load ptr, ptr %array.at
  %call.at = getelementptr ptr, ptr %held, i64 3
  %call = load ptr, ptr %call.at
  %two = icmp eq i64 %number, 2
  br i1 %two, label %look, label %go
look:
  %x = load ptr, ptr %arguments
  %y.at = getelementptr ptr, ptr %arguments, i64 1
  %y = load ptr, ptr %y.at
  %left = call i64 @size(ptr %x, ptr %array)
  %right = call i64 @size(ptr %y, ptr %array)
  %more = icmp sgt i64 %left, %right
  %most = select i1 %more, i64 %left, i64 %right
  %least = select i1 %more, i64 %right, i64 %left
  %large = icmp sge i64 %most, $large
  %arrays = icmp sge i64 %least, 0
  %both = and i1 %large, %arrays
  %second = zext i1 %both to i64
  br label %go
go:
  %chosen = phi i64 [ 0, %entry ], [ %second, %look ]
  %function.at = getelementptr ptr, ptr %held, i64 %chosen
  %function = load ptr, ptr %function.at
  %result = tail call ptr %call(ptr %function, ptr %arguments, i64 %number, ptr null)
  ret ptr %result
}
